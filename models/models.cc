#include "models/models.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest_word.h"
#include "models/names.h"
#include "models/networks.h"

namespace xoe::models {
namespace {

Error unknown_model(std::string_view name) {
  return {Code::kInvalidArgument, fmt::format("no model is named {}{}; known models: {}", name,
                                              did_you_mean(name, kNames), fmt::join(kNames, ", "))};
}

}  // namespace

std::span<const std::string_view> model_names() noexcept { return kNames; }

Result<ModelHandle> make_model(std::string_view name, int classes, int height, int width) {
  if (std::ranges::find(kNames, name) == kNames.end()) return failure(unknown_model(name));
  if (classes < 1) return failure(Code::kInvalidArgument, "a model needs at least 1 class, not {}", classes);
  if (height < 1 || width < 1)
    return failure(Code::kInvalidArgument, "the image size must be at least 1, not {}x{}", height, width);
  if (name == "resnet18") return make_resnet18(classes);
  if (name == "resnet50") return make_resnet50(classes);
  if (name == "mlp") return make_mlp(classes, height, width);
  if (const int patch = vit_patch_size(height, width); height % patch != 0 || width % patch != 0) {
    return failure(Code::kInvalidArgument,
                   "vit_tiny cuts images into patches of {} pixels; take an image size that is "
                   "a multiple of that, not {}x{}",
                   patch, height, width);
  }
  return make_vit_tiny(classes, height, width);
}

std::string common_name(std::string_view model, const std::string& name) {
  if (model != "vit_tiny") return name;
  if (name.starts_with("patch_embed.")) return "patch_embed.proj." + name.substr(name.find('.') + 1);
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kWithin = {
      {{".qkv.", ".attn"}, {".proj.", ".attn"}, {".fc1.", ".mlp"}, {".fc2.", ".mlp"}}};
  for (const auto& [part, room] : kWithin)
    if (const auto at = name.find(part); at != std::string::npos) return std::string(name).insert(at, room);
  return name;
}

}  // namespace xoe::models

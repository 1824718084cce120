#include "models/models.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.h"
#include "models/networks.h"

namespace xoe::models {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"mlp", "resnet18", "resnet50", "vit_tiny"};

// Levenshtein's distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}

Error unknown_model(std::string_view name) {
  const auto closest =
      std::ranges::min_element(kNames, {}, [&](std::string_view candidate) { return edit_distance(name, candidate); });
  return {Code::kInvalidArgument, fmt::format("no model is named '{}'; did you mean '{}'? Known models: {}", name,
                                              *closest, fmt::join(kNames, ", "))};
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

}  // namespace xoe::models

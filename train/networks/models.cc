#include "train/networks/models.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/nearest_word.h"
#include "train/networks/names.h"
#include "train/networks/networks.h"

namespace xoe::models {
namespace {

#define XOE_MODEL_ENTRY(name) &make_##name,
constexpr std::array kFactories = {XOE_MODELS(XOE_MODEL_ENTRY)};  // in the order of kNames
#undef XOE_MODEL_ENTRY

Error unknown_model(std::string_view name) {
  return {Code::kInvalidArgument, fmt::format("no model is named {}{}; known models: {}", name,
                                              did_you_mean(name, kNames), fmt::join(kNames, ", "))};
}

}  // namespace

std::span<const std::string_view> model_names() noexcept { return kNames; }

Result<ModelHandle> make_model(std::string_view name, int classes, int height, int width) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return failure(unknown_model(name));
  if (classes < 1) return failure(Code::kInvalidArgument, "a model needs at least 1 class, not {}", classes);
  if (height < 1 || width < 1)
    return failure(Code::kInvalidArgument, "the image size must be at least 1, not {}x{}", height, width);
  return kFactories[static_cast<std::size_t>(found - kNames.begin())]({classes, height, width});
}

Status check_image_size(std::string_view model, const Shape& shape, int minimum, int published) {
  if (shape.height >= minimum && shape.width >= minimum) return {};
  return failure(Code::kInvalidArgument,
                 "{} takes images of at least {}x{} pixels ({}x{} as published), not {}x{}; choose a larger image size",
                 model, minimum, minimum, published, published, shape.height, shape.width);
}

}  // namespace xoe::models

// The names of the networks; needs no libtorch.
#pragma once

#include <array>
#include <string_view>

#include "train/networks/list.h"

namespace xoe::models {

#define XOE_MODEL_NAME(name) std::string_view(#name),
inline constexpr std::array kNames = {XOE_MODELS(XOE_MODEL_NAME)};
#undef XOE_MODEL_NAME

}  // namespace xoe::models

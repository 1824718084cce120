// The names of the networks; needs no libtorch.
#pragma once

#include <array>
#include <string_view>

namespace xoe::models {

inline constexpr std::array<std::string_view, 4> kNames = {"mlp", "resnet18", "resnet50", "vit_tiny"};

}  // namespace xoe::models

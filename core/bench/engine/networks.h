// The tensors of a step: how many float32 values each of them has.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace xoe::bench {

// named-4B, named-4K: one tensor. 160x16K: 160 tensors of 16 KiB. resnet50: the gradients of ResNet-50 in the order in
// which backward gives them; resnet50x3: three times that, as of a network of some 300 layers. Empty: not known.
std::vector<std::size_t> network(std::string_view name);

}  // namespace xoe::bench

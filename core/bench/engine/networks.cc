#include "core/bench/engine/networks.h"

#include <algorithm>
#include <array>

namespace xoe::bench {
namespace {

// A convolution without bias, and the weight and bias of the normalisation behind it.
void add_convolution(std::vector<std::size_t>& sizes, std::size_t in, std::size_t out, std::size_t window) {
  sizes.insert(sizes.end(), {in * out * window * window, out, out});
}

// He et al., "Deep Residual Learning for Image Recognition", 2016: 161 parameters, 25557032 values, in the order of
// torchvision's resnet50().
std::vector<std::size_t> resnet50() {
  struct Stage {
    std::size_t blocks, width;
  };
  constexpr std::array<Stage, 4> kStages = {{{3, 64}, {4, 128}, {6, 256}, {3, 512}}};
  constexpr std::size_t kExpansion = 4;
  std::vector<std::size_t> sizes;
  add_convolution(sizes, 3, 64, 7);
  std::size_t channels = 64;
  for (const Stage& stage : kStages) {
    for (std::size_t block = 0; block < stage.blocks; ++block) {
      const std::size_t out = stage.width * kExpansion;
      add_convolution(sizes, channels, stage.width, 1);
      add_convolution(sizes, stage.width, stage.width, 3);
      add_convolution(sizes, stage.width, out, 1);
      if (block == 0) add_convolution(sizes, channels, out, 1);
      channels = out;
    }
  }
  sizes.insert(sizes.end(), {channels * 1000, 1000});
  return sizes;
}

}  // namespace

std::vector<std::size_t> network(std::string_view name) {
  if (name == "named-4B") return {1};
  if (name == "named-4K") return {1024};
  if (name == "160x16K") return std::vector<std::size_t>(160, 4096);
  if (name != "resnet50" && name != "resnet50x3") return {};
  auto sizes = resnet50();
  std::reverse(sizes.begin(), sizes.end());
  const auto once = sizes;
  for (int k = 1; k < 3 && name == "resnet50x3"; ++k) sizes.insert(sizes.end(), once.begin(), once.end());
  return sizes;
}

}  // namespace xoe::bench

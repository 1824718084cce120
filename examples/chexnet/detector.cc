#include "chexnet/detector.h"

#include <ATen/ops/einsum.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

namespace chexnet {
namespace {

constexpr std::int64_t kFilters = 16;
constexpr std::int64_t kRegions = 4;  // along a side
constexpr double kHighest = 30;       // of an exponent

torch::nn::Conv2d make_filter(int image_size) {
  const std::int64_t kernel = image_size / 8 + 3;
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(1, kFilters, kernel).padding(kernel / 2));
}

}  // namespace

Detector::Detector(int labels, int image_size)
    : filter_(register_module("filter", make_filter(image_size))),
      prior_(register_parameter("prior", at::zeros({kFilters, 1, image_size / kRegions, 1, image_size / kRegions}))),
      region_(register_parameter("region", at::zeros({labels, kRegions * kRegions}))),
      channel_(register_parameter("channel", 0.3 * at::randn({labels, kFilters}))),
      bias_(register_parameter("bias", at::zeros({labels}))) {}

xoe::models::Logits Detector::forward(const at::Tensor& images) {
  at::Tensor found = filter_->forward(images.narrow(1, 0, 1));
  const std::int64_t side = found.size(3) / kRegions;
  found = found.reshape({-1, kFilters, kRegions, side, kRegions, side}) + 4 * prior_;
  const at::Tensor regions = found.clamp_max(kHighest).exp().mean({3, 5}).log().flatten(2);
  const at::Tensor by_label = at::einsum("nfr,lf->nlr", {regions, channel_});
  return {.main = (by_label * (1.0 / (kRegions * kRegions) + 4 * region_)).sum(2) + bias_};
}

}  // namespace chexnet

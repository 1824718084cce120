#include "train/networks/layers.h"
#include "train/networks/networks.h"
#include "train/networks/pooled_features.h"

namespace xoe::models {
namespace {

struct MobileStage {
  std::int64_t widening;
  std::int64_t channels;
  int blocks;
  std::int64_t stride;  // of the first block
};
constexpr std::array<MobileStage, 7> kMobileStages = {
    {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}}};
constexpr std::int64_t kMobileFirst = 32;
constexpr std::int64_t kMobileLast = 1280;

std::shared_ptr<InvertedResidual> mobile_block(std::int64_t in, std::int64_t out, std::int64_t widening,
                                               std::int64_t stride) {
  auto chain = std::make_shared<Chain>();
  add_expansion(*chain, {.in = in, .width = in * widening, .kernel = 3, .stride = stride, .activation = kRelu6});
  chain->add(conv2d({.in = in * widening, .out = out, .kernel = {1, 1}}));
  chain->add(BatchNorm(out));
  return std::make_shared<InvertedResidual>("conv", std::move(chain), stride == 1 && in == out);
}

class MobileNetV2 : public PooledFeatures {
 public:
  explicit MobileNetV2(int classes) {
    features_->add(std::make_shared<ConvNorm>(
        ConvNormSpec{.conv = {.in = 3, .out = kMobileFirst, .stride = 2}, .activation = kRelu6}));
    std::int64_t channels = kMobileFirst;
    for (const MobileStage& stage : kMobileStages) {
      for (int i = 0; i < stage.blocks; ++i) {
        features_->add_block(mobile_block(channels, stage.channels, stage.widening, i == 0 ? stage.stride : 1));
        channels = stage.channels;
      }
    }
    features_->add(std::make_shared<ConvNorm>(
        ConvNormSpec{.conv = {.in = channels, .out = kMobileLast, .kernel = {1, 1}}, .activation = kRelu6}));
    const nn::Linear linear = add_classifier(kMobileLast, classes, 0.2);
    nn::init::normal_(linear->weight, 0, 0.01);
    nn::init::zeros_(linear->bias);
  }
};

}  // namespace

Result<ModelHandle> make_mobilenet_v2(const Shape& shape) { return std::make_shared<MobileNetV2>(shape.classes); }

}  // namespace xoe::models

#include <cmath>
#include <span>

#include "train/networks/layers.h"
#include "train/networks/networks.h"
#include "train/networks/pooled_features.h"

namespace xoe::models {
namespace {

struct EfficientStage {
  bool fused;  // one full convolution in place of a 1x1 and a depthwise one, and no squeeze and excitation
  std::int64_t widening;
  std::int64_t kernel;
  std::int64_t stride;  // of the first block
  std::int64_t channels;
  int blocks;
};
constexpr std::array<EfficientStage, 7> kEfficientB0 = {{{false, 1, 3, 1, 16, 1},
                                                         {false, 6, 3, 2, 24, 2},
                                                         {false, 6, 5, 2, 40, 2},
                                                         {false, 6, 3, 2, 80, 3},
                                                         {false, 6, 5, 1, 112, 3},
                                                         {false, 6, 5, 2, 192, 4},
                                                         {false, 6, 3, 1, 320, 1}}};
constexpr std::array<EfficientStage, 6> kEfficientV2S = {{{true, 1, 3, 1, 24, 2},
                                                          {true, 4, 3, 2, 48, 4},
                                                          {true, 4, 3, 2, 64, 4},
                                                          {false, 4, 3, 2, 128, 6},
                                                          {false, 6, 3, 1, 160, 9},
                                                          {false, 6, 3, 2, 256, 15}}};
constexpr std::int64_t kEfficientLast = 1280;
constexpr double kEfficientDropout = 0.2;
constexpr double kDeepestDrop = 0.2;  // stochastic depth grows from 0 to this

struct EfficientBlock {
  std::int64_t in;
  std::int64_t out;
  std::int64_t widening;
  std::int64_t kernel;
  std::int64_t stride;
  double epsilon;

  std::int64_t width() const { return in * widening; }
};

std::shared_ptr<ConvNorm> project(const EfficientBlock& block) {
  return std::make_shared<ConvNorm>(
      ConvNormSpec{.conv = {.in = block.width(), .out = block.out, .kernel = {1, 1}}, .epsilon = block.epsilon});
}

std::shared_ptr<Chain> separable(const EfficientBlock& block) {
  auto chain = std::make_shared<Chain>();
  add_expansion(*chain, {.in = block.in,
                         .width = block.width(),
                         .kernel = block.kernel,
                         .stride = block.stride,
                         .activation = kSilu,
                         .epsilon = block.epsilon});
  chain->add(std::make_shared<SqueezeExcite>(block.width(), block.in / 4));
  chain->add(project(block));
  return chain;
}

std::shared_ptr<Chain> fused(const EfficientBlock& block) {
  auto chain = std::make_shared<Chain>();
  const bool widens = block.widening != 1;
  chain->add(std::make_shared<ConvNorm>(ConvNormSpec{.conv = {.in = block.in,
                                                              .out = widens ? block.width() : block.out,
                                                              .kernel = {block.kernel, block.kernel},
                                                              .stride = block.stride},
                                                     .activation = kSilu,
                                                     .epsilon = block.epsilon}));
  if (widens) chain->add(project(block));
  return chain;
}

class EfficientNet : public PooledFeatures {
 public:
  EfficientNet(std::int64_t channels, std::span<const EfficientStage> stages, double epsilon, int classes) {
    features_->add(std::make_shared<ConvNorm>(
        ConvNormSpec{.conv = {.in = 3, .out = channels, .stride = 2}, .activation = kSilu, .epsilon = epsilon}));
    int blocks = 0;
    for (const EfficientStage& stage : stages) blocks += stage.blocks;
    int number = 0;
    for (const EfficientStage& stage : stages) {
      auto chain = std::make_shared<Chain>();
      for (int i = 0; i < stage.blocks; ++i, ++number) {
        const EfficientBlock block = {.in = channels,
                                      .out = stage.channels,
                                      .widening = stage.widening,
                                      .kernel = stage.kernel,
                                      .stride = i == 0 ? stage.stride : 1,
                                      .epsilon = epsilon};
        chain->add_block(std::make_shared<InvertedResidual>("block", stage.fused ? fused(block) : separable(block),
                                                            block.stride == 1 && block.in == block.out,
                                                            kDeepestDrop * number / blocks));
        channels = stage.channels;
      }
      features_->add(std::move(chain));
    }
    features_->add(std::make_shared<ConvNorm>(ConvNormSpec{
        .conv = {.in = channels, .out = kEfficientLast, .kernel = {1, 1}}, .activation = kSilu, .epsilon = epsilon}));
    const nn::Linear linear = add_classifier(kEfficientLast, classes, kEfficientDropout);
    const double range = 1 / std::sqrt(static_cast<double>(classes));
    nn::init::uniform_(linear->weight, -range, range);
    nn::init::zeros_(linear->bias);
  }
};

}  // namespace

Result<ModelHandle> make_efficientnet_b0(const Shape& shape) {
  return std::make_shared<EfficientNet>(32, kEfficientB0, 1e-5, shape.classes);
}

Result<ModelHandle> make_efficientnet_v2_s(const Shape& shape) {
  return std::make_shared<EfficientNet>(24, kEfficientV2S, 1e-3, shape.classes);
}

}  // namespace xoe::models

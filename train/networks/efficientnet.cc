#include <algorithm>
#include <cmath>
#include <vector>

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
constexpr std::int64_t kEfficientLast = 1280;  // channels of V2-S; B0 to B7: four times the last stage's
constexpr double kDeepestDrop = 0.2;           // stochastic depth grows from 0 to this

struct EfficientSpec {
  std::int64_t first;  // channels
  std::vector<EfficientStage> stages;
  std::int64_t last;  // channels
  double dropout = 0.2;
  NormSpec norm = {};
};

// B1 to B7 are B0 with more channels and blocks.
struct EfficientScale {
  double width = 1;
  double depth = 1;
  double dropout = 0.2;
  NormSpec norm = {};
};
constexpr NormSpec kEfficientLargeNorm = {.epsilon = 1e-3, .momentum = 0.01};  // of the published program, from B5 on

// The multiple of 8 next to it, and never less than 0.9 of it.
std::int64_t efficient_channels(std::int64_t channels, double factor) {
  const double wanted = static_cast<double>(channels) * factor;
  const auto next = std::max<std::int64_t>(8, static_cast<std::int64_t>(wanted + 4) / 8 * 8);
  return static_cast<double>(next) < 0.9 * wanted ? next + 8 : next;
}

EfficientSpec efficient_spec(const EfficientScale& scale) {
  EfficientSpec spec = {.first = efficient_channels(32, scale.width),
                        .stages = {kEfficientB0.begin(), kEfficientB0.end()},
                        .last = 0,
                        .dropout = scale.dropout,
                        .norm = scale.norm};
  for (EfficientStage& stage : spec.stages) {
    stage.channels = efficient_channels(stage.channels, scale.width);
    stage.blocks = static_cast<int>(std::ceil(stage.blocks * scale.depth));
  }
  spec.last = 4 * spec.stages.back().channels;
  return spec;
}

struct EfficientBlock {
  std::int64_t in;
  std::int64_t out;
  std::int64_t widening;
  std::int64_t kernel;
  std::int64_t stride;
  NormSpec norm;

  std::int64_t width() const { return in * widening; }
};

std::shared_ptr<ConvNorm> project(const EfficientBlock& block) {
  return std::make_shared<ConvNorm>(
      ConvNormSpec{.conv = {.in = block.width(), .out = block.out, .kernel = {1, 1}}, .norm = block.norm});
}

std::shared_ptr<Chain> separable(const EfficientBlock& block) {
  auto chain = std::make_shared<Chain>();
  add_expansion(*chain, {.in = block.in,
                         .width = block.width(),
                         .kernel = block.kernel,
                         .stride = block.stride,
                         .activation = kSilu,
                         .norm = block.norm});
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
                                                     .norm = block.norm}));
  if (widens) chain->add(project(block));
  return chain;
}

class EfficientNet : public PooledFeatures {
 public:
  EfficientNet(const EfficientSpec& spec, int classes) {
    std::int64_t channels = spec.first;
    features_->add(std::make_shared<ConvNorm>(
        ConvNormSpec{.conv = {.in = 3, .out = channels, .stride = 2}, .activation = kSilu, .norm = spec.norm}));
    int blocks = 0;
    for (const EfficientStage& stage : spec.stages) blocks += stage.blocks;
    int number = 0;
    for (const EfficientStage& stage : spec.stages) {
      auto chain = std::make_shared<Chain>();
      for (int i = 0; i < stage.blocks; ++i, ++number) {
        const EfficientBlock block = {.in = channels,
                                      .out = stage.channels,
                                      .widening = stage.widening,
                                      .kernel = stage.kernel,
                                      .stride = i == 0 ? stage.stride : 1,
                                      .norm = spec.norm};
        chain->add_block(std::make_shared<InvertedResidual>("block", stage.fused ? fused(block) : separable(block),
                                                            block.stride == 1 && block.in == block.out,
                                                            kDeepestDrop * number / blocks));
        channels = stage.channels;
      }
      features_->add(std::move(chain));
    }
    features_->add(std::make_shared<ConvNorm>(ConvNormSpec{
        .conv = {.in = channels, .out = spec.last, .kernel = {1, 1}}, .activation = kSilu, .norm = spec.norm}));
    const nn::Linear linear = add_classifier(spec.last, classes, spec.dropout);
    const double range = 1 / std::sqrt(static_cast<double>(classes));
    nn::init::uniform_(linear->weight, -range, range);
    nn::init::zeros_(linear->bias);
  }
};

Result<ModelHandle> make_efficientnet(const EfficientSpec& spec, const Shape& shape) {
  return std::make_shared<EfficientNet>(spec, shape.classes);
}

}  // namespace

Result<ModelHandle> make_efficientnet_b0(const Shape& shape) { return make_efficientnet(efficient_spec({}), shape); }

Result<ModelHandle> make_efficientnet_b1(const Shape& shape) {
  return make_efficientnet(efficient_spec({.depth = 1.1}), shape);
}

Result<ModelHandle> make_efficientnet_b2(const Shape& shape) {
  return make_efficientnet(efficient_spec({.width = 1.1, .depth = 1.2, .dropout = 0.3}), shape);
}

Result<ModelHandle> make_efficientnet_b3(const Shape& shape) {
  return make_efficientnet(efficient_spec({.width = 1.2, .depth = 1.4, .dropout = 0.3}), shape);
}

Result<ModelHandle> make_efficientnet_b4(const Shape& shape) {
  return make_efficientnet(efficient_spec({.width = 1.4, .depth = 1.8, .dropout = 0.4}), shape);
}

Result<ModelHandle> make_efficientnet_b5(const Shape& shape) {
  return make_efficientnet(efficient_spec({.width = 1.6, .depth = 2.2, .dropout = 0.4, .norm = kEfficientLargeNorm}),
                           shape);
}

Result<ModelHandle> make_efficientnet_b6(const Shape& shape) {
  return make_efficientnet(efficient_spec({.width = 1.8, .depth = 2.6, .dropout = 0.5, .norm = kEfficientLargeNorm}),
                           shape);
}

Result<ModelHandle> make_efficientnet_b7(const Shape& shape) {
  return make_efficientnet(efficient_spec({.width = 2.0, .depth = 3.1, .dropout = 0.5, .norm = kEfficientLargeNorm}),
                           shape);
}

Result<ModelHandle> make_efficientnet_v2_s(const Shape& shape) {
  const EfficientSpec spec = {.first = 24,
                              .stages = {kEfficientV2S.begin(), kEfficientV2S.end()},
                              .last = kEfficientLast,
                              .norm = {.epsilon = 1e-3}};
  return make_efficientnet(spec, shape);
}

}  // namespace xoe::models

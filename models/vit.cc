#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "models/networks.h"

namespace xoe::models {
namespace {

namespace nn = ::torch::nn;

constexpr std::int64_t kWidth = 192;
constexpr int kLayers = 12;
constexpr std::int64_t kHeads = 3;
constexpr double kInitialSpread = 0.02;
constexpr double kNormEpsilon = 1e-6;

nn::LayerNorm layer_norm() { return nn::LayerNorm(nn::LayerNormOptions({kWidth}).eps(kNormEpsilon)); }

// Pre-norm transformer layer.
class Layer : public nn::Module {
 public:
  Layer()
      : norm1_(register_module("norm1", layer_norm())),
        qkv_(register_module("qkv", nn::Linear(kWidth, 3 * kWidth))),
        proj_(register_module("proj", nn::Linear(kWidth, kWidth))),
        norm2_(register_module("norm2", layer_norm())),
        fc1_(register_module("fc1", nn::Linear(kWidth, 4 * kWidth))),
        fc2_(register_module("fc2", nn::Linear(4 * kWidth, kWidth))) {}

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor x = input + attention(norm1_->forward(input));
    return x + fc2_->forward(at::gelu(fc1_->forward(norm2_->forward(x))));
  }

 private:
  at::Tensor attention(const at::Tensor& x) {
    const std::int64_t batch = x.size(0);
    const std::int64_t tokens = x.size(1);
    // [batch, tokens, 3 * width] -> three of [batch, heads, tokens, width / heads]
    const auto parts =
        qkv_->forward(x).view({batch, tokens, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const at::Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return proj_->forward(mixed.transpose(1, 2).reshape({batch, tokens, kWidth}));
  }

  nn::LayerNorm norm1_;
  nn::Linear qkv_;
  nn::Linear proj_;
  nn::LayerNorm norm2_;
  nn::Linear fc1_;
  nn::Linear fc2_;
};

class VisionTransformer : public ImageModel {
 public:
  VisionTransformer(int classes, int height, int width) {
    const std::int64_t patch = vit_patch_size(height, width);
    const std::int64_t tokens = (height / patch) * (width / patch) + 1;
    patches_ = register_module("patch_embed", nn::Conv2d(nn::Conv2dOptions(3, kWidth, patch).stride(patch)));
    class_token_ = register_parameter("cls_token", at::zeros({1, 1, kWidth}));
    position_ = register_parameter("pos_embed", at::zeros({1, tokens, kWidth}));
    layers_ = register_module("blocks", nn::Sequential());
    for (int i = 0; i < kLayers; ++i) layers_->push_back(Layer());
    norm_ = register_module("norm", layer_norm());
    head_ = register_module("head", nn::Linear(kWidth, classes));
    initialise();
  }

  at::Tensor forward(const at::Tensor& images) override {
    const at::Tensor patches = patches_->forward(images).flatten(2).transpose(1, 2);
    at::Tensor x = at::cat({class_token_.expand({images.size(0), -1, -1}), patches}, 1) + position_;
    x = norm_->forward(layers_->forward(x));
    return head_->forward(x.select(1, 0));
  }

 private:
  void initialise() {
    nn::init::normal_(class_token_, 0.0, kInitialSpread);
    nn::init::normal_(position_, 0.0, kInitialSpread);
    for (const auto& module : modules(/*include_self=*/false)) {
      if (const auto* linear = module->as<nn::Linear>()) {
        nn::init::normal_(linear->weight, 0.0, kInitialSpread);
        nn::init::zeros_(linear->bias);
      }
    }
  }

  nn::Conv2d patches_{nullptr};
  at::Tensor class_token_;
  at::Tensor position_;
  nn::Sequential layers_{nullptr};
  nn::LayerNorm norm_{nullptr};
  nn::Linear head_{nullptr};
};

}  // namespace

int vit_patch_size(int height, int width) noexcept { return height < 128 || width < 128 ? 8 : 16; }

ModelHandle make_vit_tiny(int classes, int height, int width) {
  return std::make_shared<VisionTransformer>(classes, height, width);
}

}  // namespace xoe::models

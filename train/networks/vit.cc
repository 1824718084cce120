#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <string_view>

#include "core/base/error.h"
#include "train/networks/layers.h"
#include "train/networks/networks.h"

namespace xoe::models {
namespace {

struct VitSpec {
  std::int64_t width;
  std::int64_t heads;
  int patch;  // its side in pixels
  int layers = 12;
};
constexpr double kInitialSpread = 0.02;
constexpr double kNormEpsilon = 1e-6;

nn::LayerNorm layer_norm(std::int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width}).eps(kNormEpsilon)); }

// Pre-norm transformer layer.
class TransformerLayer : public nn::Module {
 public:
  TransformerLayer(std::int64_t width, std::int64_t heads)
      : heads_(heads),
        norm1_(register_module("norm1", layer_norm(width))),
        qkv_(register_module("qkv", nn::Linear(width, 3 * width))),
        proj_(register_module("proj", nn::Linear(width, width))),
        norm2_(register_module("norm2", layer_norm(width))),
        fc1_(register_module("fc1", nn::Linear(width, 4 * width))),
        fc2_(register_module("fc2", nn::Linear(4 * width, width))) {}

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor x = input + attention(norm1_->forward(input));
    return x + fc2_->forward(at::gelu(fc1_->forward(norm2_->forward(x))));
  }

 private:
  at::Tensor attention(const at::Tensor& x) {
    const std::int64_t batch = x.size(0);
    const std::int64_t tokens = x.size(1);
    const std::int64_t width = x.size(2);
    // [batch, tokens, 3 * width] -> three of [batch, heads, tokens, width / heads]
    const auto parts =
        qkv_->forward(x).view({batch, tokens, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4}).unbind(0);
    const at::Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return proj_->forward(mixed.transpose(1, 2).reshape({batch, tokens, width}));
  }

  std::int64_t heads_;
  nn::LayerNorm norm1_;
  nn::Linear qkv_;
  nn::Linear proj_;
  nn::LayerNorm norm2_;
  nn::Linear fc1_;
  nn::Linear fc2_;
};

class VisionTransformer : public ImageModel {
 public:
  VisionTransformer(const VitSpec& spec, const Shape& shape) {
    const std::int64_t tokens = std::int64_t{shape.height / spec.patch} * (shape.width / spec.patch) + 1;
    patches_ =
        register_module("patch_embed", nn::Conv2d(nn::Conv2dOptions(3, spec.width, spec.patch).stride(spec.patch)));
    class_token_ = register_parameter("cls_token", at::zeros({1, 1, spec.width}));
    position_ = register_parameter("pos_embed", at::zeros({1, tokens, spec.width}));
    for (int i = 0; i < spec.layers; ++i)
      layers_->add_block(std::make_shared<TransformerLayer>(spec.width, spec.heads));
    register_module("blocks", layers_);
    norm_ = register_module("norm", layer_norm(spec.width));
    head_ = register_module("head", nn::Linear(spec.width, shape.classes));
    initialise();
  }

  Logits forward(const at::Tensor& images) override {
    const at::Tensor patches = patches_->forward(images).flatten(2).transpose(1, 2);
    at::Tensor x = at::cat({class_token_.expand({images.size(0), -1, -1}), patches}, 1) + position_;
    x = norm_->forward(layers_->forward(x));
    return {.main = head_->forward(x.select(1, 0))};
  }

  std::vector<std::string> head() const override { return {"head"}; }

  std::string common_name(const std::string& name) const override {
    if (name.starts_with("patch_embed.")) return "patch_embed.proj." + name.substr(name.find('.') + 1);
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kWithin = {
        {{".qkv.", ".attn"}, {".proj.", ".attn"}, {".fc1.", ".mlp"}, {".fc2.", ".mlp"}}};
    for (const auto& [part, room] : kWithin)
      if (const auto at = name.find(part); at != std::string::npos) return std::string(name).insert(at, room);
    return name;
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
  std::shared_ptr<Chain> layers_ = std::make_shared<Chain>();
  nn::LayerNorm norm_{nullptr};
  nn::Linear head_{nullptr};
};

Result<ModelHandle> make_vit(std::string_view name, const VitSpec& spec, const Shape& shape) {
  if (shape.height % spec.patch != 0 || shape.width % spec.patch != 0)
    return failure(Code::kInvalidArgument,
                   "{} cuts images into patches of {} pixels; take an image size that is a multiple of that, not {}x{}",
                   name, spec.patch, shape.height, shape.width);
  return std::make_shared<VisionTransformer>(spec, shape);
}

}  // namespace

Result<ModelHandle> make_vit_tiny(const Shape& shape) {
  const int patch = shape.height < 128 || shape.width < 128 ? 8 : 16;
  return make_vit("vit_tiny", {.width = 192, .heads = 3, .patch = patch}, shape);
}

Result<ModelHandle> make_vit_s16(const Shape& shape) {
  return make_vit("vit_s16", {.width = 384, .heads = 6, .patch = 16}, shape);
}

Result<ModelHandle> make_vit_b16(const Shape& shape) {
  return make_vit("vit_b16", {.width = 768, .heads = 12, .patch = 16}, shape);
}

Result<ModelHandle> make_vit_l16(const Shape& shape) {
  return make_vit("vit_l16", {.width = 1024, .heads = 16, .patch = 16, .layers = 24}, shape);
}

Result<ModelHandle> make_vit_h14(const Shape& shape) {
  return make_vit("vit_h14", {.width = 1280, .heads = 16, .patch = 14, .layers = 32}, shape);
}

}  // namespace xoe::models

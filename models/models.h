// The networks of trainer, benchmarks and examples: image classifiers as libtorch modules.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe::models {

// Maps images [N, 3, H, W] to logits [N, classes].
class ImageModel : public ::torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& images) = 0;
  // The memory format in which 4-dimensional parameters and images are fastest on the CPU. (One thread, 64x64:
  // channels last gives resnet50 6 % at batch 16 and 20 % at batch 4, resnet18 and vit_tiny nothing.)
  virtual at::MemoryFormat memory_format() const { return at::MemoryFormat::Contiguous; }
};

using ModelHandle = std::shared_ptr<ImageModel>;

// "mlp", "resnet18", "resnet50", "vit_tiny".
std::span<const std::string_view> model_names() noexcept;

// A freshly initialised model; draws from torch's default generator. `invalid_argument` for an unknown name (lists
// the known ones and the closest), for classes, height or width below 1 and for a size that the model does not support.
//   resnet18, resnet50: K. He et al., Deep Residual Learning for Image Recognition, 2015; the variant "v1.5" with the
//     stride in the 3x3 convolution; the last batch norm of each block starts at zero (P. Goyal et al., 2017). Names of
//     parameters as in torchvision.
//   vit_tiny: A. Dosovitskiy et al., An Image is Worth 16x16 Words, 2020; width 192, 12 layers, 3 heads; patches of 16
//     pixels, 8 for images below 128.
//   mlp: two hidden layers (512, 256), no normalisation.
Result<ModelHandle> make_model(std::string_view name, int classes, int height, int width);

// The name that a parameter or buffer of the model `model` has in the library that most programs know it from:
// torchvision for resnets, which is their own, and timm for vit_tiny: "blocks.0.attn.qkv.weight" for
// "blocks.0.qkv.weight".
std::string common_name(std::string_view model, const std::string& name);

}  // namespace xoe::models

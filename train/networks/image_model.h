// A network that classifies images, as a libtorch module.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

namespace xoe::models {

struct Logits {
  at::Tensor main = {};                    // [N, classes]
  std::vector<at::Tensor> auxiliary = {};  // the same of classifiers further inside, in training mode
  double auxiliary_weight = 0;             // of the loss of each of those, beside that of `main`
};

// Maps images [N, 3, H, W] to logits.
class ImageModel : public ::torch::nn::Module {
 public:
  virtual Logits forward(const at::Tensor& images) = 0;
  // The modules whose parameters depend on the number of classes, and no others do: "fc".
  virtual std::vector<std::string> head() const = 0;
  // The memory format in which 4-dimensional parameters and images are fastest on the CPU, as one thread trains
  // (docs/reference/train.md has the figures).
  virtual at::MemoryFormat memory_format() const { return at::MemoryFormat::Contiguous; }
  // Whether the network's blocks keep only their input for backward, and compute the rest again there: less memory,
  // more time, the same numbers. How many blocks there are; 0: it cannot.
  virtual int recompute_blocks(bool on);
  // The name that a parameter or buffer, by its name here, has in the library that most programs know it from: timm for
  // vision transformers ("blocks.0.attn.qkv.weight" for "blocks.0.qkv.weight"), else torchvision, which is the same.
  virtual std::string common_name(const std::string& name) const { return name; }
  // The common name of what an older file of that library calls `name`.
  virtual std::string current_name(const std::string& name) const { return name; }
};

using ModelHandle = std::shared_ptr<ImageModel>;

}  // namespace xoe::models

// The networks of trainer, benchmarks and examples: image classifiers as libtorch modules.
#pragma once

#include <span>
#include <string_view>

#include "train/networks/image_model.h"
#include "xoe/status.h"

namespace xoe::models {

// Those of train/networks/list.h, in its order.
std::span<const std::string_view> model_names() noexcept;

// A freshly initialised model; draws from torch's default generator. `invalid_argument` for an unknown name (lists
// the known ones and the closest), for classes, height or width below 1 and for a size that the model does not support.
// Parameters are named as in torchvision, and as in timm for vision transformers: see common_name(). Initial values are
// torchvision's, where nothing else is said. Dropout and stochastic depth act in training mode only.
//   resnet18, resnet34, resnet50, resnet101, resnet152: K. He et al., Deep Residual Learning for Image Recognition,
//     2015; the variant "v1.5" with the stride in the 3x3 convolution; the last batch norm of each block starts at zero
//     (P. Goyal et al., 2017).
//   resnet50_v2, resnet101_v2, resnet152_v2: K. He et al., Identity Mappings in Deep Residual Networks, 2016, with the
//     stride in the 3x3 convolution; no convolution has a bias, and the first block begins behind the batch norm of the
//     first convolution. torchvision has none; names are as in the others.
//   resnet20, resnet32, resnet44, resnet56, resnet110: those of the 2015 article for images of 32x32 (section 4.2),
//   with
//     shortcuts without parameters (option A); all batch norms start at one.
//   densenet121: G. Huang et al., Densely Connected Convolutional Networks, 2016; images of 29x29 or more.
//   alexnet: A. Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014; dropout 0.5; images
//     of 63x63 or more.
//   vgg11, vgg13, vgg16, vgg19: K. Simonyan and A. Zisserman, Very Deep Convolutional Networks, 2014, "A", "B", "D" and
//     "E", without batch norm; dropout 0.5; images of 32x32 or more.
//   googlenet: C. Szegedy et al., Going Deeper with Convolutions, 2014, with batch norm and 3x3 in place of 5x5, as
//     torchvision has it; forward() has the logits of two auxiliary classifiers in training mode. Dropout 0.2, and 0.7
//     in those; images of 15x15 or more.
//   mobilenet_v2: M. Sandler et al., 2018; dropout 0.2.
//   efficientnet_b0 to efficientnet_b7: M. Tan and Q. Le, 2019; dropout 0.2 to 0.5, stochastic depth up to 0.2.
//   efficientnet_v2_s: M. Tan and Q. Le, 2021; dropout 0.2, stochastic depth up to 0.2.
//   inception_v3: C. Szegedy et al., Rethinking the Inception Architecture, 2015; made for images of 299x299. From that
//     size on it has the auxiliary classifier, and forward() its logits in training mode; smaller images, down to
//     75x75, are too small for it. Dropout 0.5.
//   vit_tiny, vit_s16, vit_b16: A. Dosovitskiy et al., An Image is Worth 16x16 Words, 2020; 12 layers of width 192
//     and 3 heads, 384 and 6, 768 and 12; patches of 16 pixels, in vit_tiny of 8 for images below 128. vit_l16 has 24
//     layers of width 1024 and 16 heads, vit_h14 32 of 1280 and 16, and patches of 14 pixels. Initial values as H.
//     Touvron et al., DeiT, 2020.
//   mlp: two hidden layers (512, 256), no normalisation.
Result<ModelHandle> make_model(std::string_view name, int classes, int height, int width);

}  // namespace xoe::models

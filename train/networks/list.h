// Every network: NAME is made by make_NAME() in a file of this folder. A network needs a line here, that
// file, its tests (train/README.md names them), and a row in docs/reference/train.md.
#pragma once

#define XOE_MODELS(MODEL)  \
  MODEL(mlp)               \
  MODEL(resnet18)          \
  MODEL(resnet34)          \
  MODEL(resnet50)          \
  MODEL(resnet101)         \
  MODEL(resnet152)         \
  MODEL(resnet50_v2)       \
  MODEL(resnet101_v2)      \
  MODEL(resnet152_v2)      \
  MODEL(resnet20)          \
  MODEL(resnet32)          \
  MODEL(resnet44)          \
  MODEL(resnet56)          \
  MODEL(resnet110)         \
  MODEL(densenet121)       \
  MODEL(alexnet)           \
  MODEL(vgg11)             \
  MODEL(vgg13)             \
  MODEL(vgg16)             \
  MODEL(vgg19)             \
  MODEL(googlenet)         \
  MODEL(inception_v3)      \
  MODEL(mobilenet_v2)      \
  MODEL(efficientnet_b0)   \
  MODEL(efficientnet_b1)   \
  MODEL(efficientnet_b2)   \
  MODEL(efficientnet_b3)   \
  MODEL(efficientnet_b4)   \
  MODEL(efficientnet_b5)   \
  MODEL(efficientnet_b6)   \
  MODEL(efficientnet_b7)   \
  MODEL(efficientnet_v2_s) \
  MODEL(vit_tiny)          \
  MODEL(vit_s16)           \
  MODEL(vit_b16)           \
  MODEL(vit_l16)           \
  MODEL(vit_h14)

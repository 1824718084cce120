// Every network: NAME is made by make_NAME() in a file of this folder. A network needs a line here, that
// file, its tests (train/README.md names them), and a row in docs/reference/train.md.
#pragma once

#define XOE_MODELS(MODEL)  \
  MODEL(mlp)               \
  MODEL(resnet18)          \
  MODEL(resnet50)          \
  MODEL(resnet101)         \
  MODEL(resnet152)         \
  MODEL(densenet121)       \
  MODEL(vgg16)             \
  MODEL(mobilenet_v2)      \
  MODEL(efficientnet_b0)   \
  MODEL(efficientnet_v2_s) \
  MODEL(inception_v3)      \
  MODEL(vit_tiny)          \
  MODEL(vit_s16)           \
  MODEL(vit_b16)

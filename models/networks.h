// The factories of the networks; see make_model().
#pragma once

#include "models/models.h"

namespace xoe::models {

ModelHandle make_resnet18(int classes);
ModelHandle make_resnet50(int classes);
ModelHandle make_vit_tiny(int classes, int height, int width);  // both are multiples of vit_patch_size()
ModelHandle make_mlp(int classes, int height, int width);

int vit_patch_size(int height, int width) noexcept;

}  // namespace xoe::models

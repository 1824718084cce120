// The factories of the networks; see make_model().
#pragma once

#include "models/models.h"

namespace xoe::models {

ModelHandle make_resnet18(int classes);
ModelHandle make_resnet50(int classes);
ModelHandle make_vit_tiny(int classes, int image_size);  // image_size is a multiple of vit_patch_size()
ModelHandle make_mlp(int classes, int image_size);

int vit_patch_size(int image_size) noexcept;

}  // namespace xoe::models

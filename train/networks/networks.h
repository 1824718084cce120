// The factories of the networks; see make_model().
#pragma once

#include "train/networks/image_model.h"
#include "train/networks/list.h"
#include "xoe/status.h"

namespace xoe::models {

struct Shape {
  int classes;  // all at least 1
  int height;   // of images, in pixels
  int width;
};

#define XOE_MODEL_FACTORY(name) Result<ModelHandle> make_##name(const Shape& shape);
XOE_MODELS(XOE_MODEL_FACTORY)
#undef XOE_MODEL_FACTORY

// `invalid_argument`: an image's side is below `minimum`. `published`: the side that the network was made for.
Status check_image_size(std::string_view model, const Shape& shape, int minimum, int published = 224);

}  // namespace xoe::models

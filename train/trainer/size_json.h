// Sizes of images in JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "xoe/data/pixels.h"

namespace xoe::train {

// A number for a square, else "192x256": height and width.
inline nlohmann::ordered_json size_json(data::ImageSize size) {
  if (size.height == size.width) return size.height;
  return data::to_text(size);
}

}  // namespace xoe::train

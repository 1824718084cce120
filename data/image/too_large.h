// The limit on the size of images.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/error.h"

namespace xoe::data {

inline tl::unexpected<Error> too_large(std::string_view kind, std::int64_t width, std::int64_t height,
                                       std::int64_t max_pixels) {
  return failure(Code::kResourceExhausted, "{} of {} x {} pixels; at most {} pixels are decoded (max_pixels)", kind,
                 width, height, max_pixels);
}

}  // namespace xoe::data

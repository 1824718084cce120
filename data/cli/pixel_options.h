// The options of programs that say how images become pixels.
#pragma once

#include <CLI/CLI.hpp>

#include "xoe/data/pixels.h"

namespace xoe::tools {

// --image-size, with the value that `size` has as the default.
void add_image_size(CLI::App& app, data::ImageSize& size);
// --interpolation, --antialias, --exif-orientation and --max-pixels.
void add_pixel_options(CLI::App& app, data::PixelOptions& options);

}  // namespace xoe::tools

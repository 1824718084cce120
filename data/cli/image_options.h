// The options about images that programs share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "core/command_line/parse/command_line.h"
#include "xoe/data/pixels.h"

namespace xoe::tools {

// --image-size, with the value that `size` has as the default.
void add_image_size(CLI::App& app, data::ImageSize& size);
// --interpolation, --antialias, --exif-orientation and --max-pixels.
void add_pixel_options(CLI::App& app, data::PixelOptions& options);
// --max-bad, and the names that it had before.
void add_max_bad_option(CLI::App& app, std::int64_t& max_bad, const std::string& description);
void add_missing_option(CLI::App& app, bool& allow_missing);

// How labels are read; the names of features are for TFRecord files.
template <class Options>
void add_label_options(CLI::App& app, Options& from) {
  add_setting(app, "--image-key", from.image_key, "the feature of TFRecord files that holds the image");
  add_setting(app, "--label-key", from.label_key, "the feature that holds the label");
  app.add_option("--label-offset", from.label_offset,
                 "the label stored for the first class (default: 1 in TFRecord files, as in ImageNet's; 0 in others)");
}

}  // namespace xoe::tools

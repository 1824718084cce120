#include "data/cli/pixel_options.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/command_line/parse/command_line.h"

namespace xoe::tools {

void add_image_size(CLI::App& app, data::ImageSize& size) {
  app.add_option_function<std::string>(
         "--image-size",
         [&size](const std::string& text) {
           const auto parsed = data::parse_image_size(text);
           if (!parsed || parsed->height < 1 || parsed->width < 1)
             throw CLI::ValidationError("--image-size " + text + ": expected pixels of a side, or HEIGHTxWIDTH",
                                        CLI::ExitCodes::ValidationError);
           size = *parsed;
         },
         "height and width of what is made: 224, or 192x256")
      ->default_str(data::to_text(size))
      ->type_name("SIZE");
}

void add_pixel_options(CLI::App& app, data::PixelOptions& options) {
  std::vector<std::pair<std::string, data::Interpolation>> kinds;
  for (int i = 0; !data::interpolation_name(data::Interpolation(i)).empty(); ++i)
    kinds.emplace_back(data::interpolation_name(data::Interpolation(i)), data::Interpolation(i));
  add_choice(app, "--interpolation", options.interpolation, std::move(kinds), "how images are resized");
  app.add_flag("--antialias,!--no-antialias", options.antialias,
               "average over all pixels when an image shrinks, as torchvision does (the default)");
  app.add_flag("--exif-orientation", options.exif_orientation, "turn JPEGs as their EXIF data say");
  app.add_option("--max-pixels", options.max_pixels, "of an image; a larger one is an error")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
}

}  // namespace xoe::tools

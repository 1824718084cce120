#include "data/cli/image_options.h"

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
  add_number(app, "--max-pixels", options.max_pixels, 1, std::int64_t{1} << 40,
             "of an image; a larger one is an error");
}

void add_max_bad_option(CLI::App& app, std::int64_t& max_bad, const std::string& description) {
  app.add_option("--max-bad", max_bad, description)->check(CLI::NonNegativeNumber)->default_str("0");
  for (const char* before : {"--max-bad-images", "--skip-bad"})  // not in the help
    app.add_option(before, max_bad, description)->check(CLI::NonNegativeNumber)->group("");
}

void add_missing_option(CLI::App& app, bool& allow_missing) {
  app.add_flag("--allow-missing", allow_missing, "go on without files that should be there and are not");
}

}  // namespace xoe::tools

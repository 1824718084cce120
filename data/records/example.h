// Images as tf.Examples in the ImageNet layout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "xoe/data/example.h"
#include "xoe/status.h"

namespace xoe::data {

struct ImageKeys {
  std::string_view encoded = "image/encoded";
  std::string_view label = "image/class/label";
};

// An image in the ImageNet layout (image/encoded, image/class/label, ...).
struct ImageExample {
  std::string_view encoded;
  std::int64_t label = 0;  // where the list has one value
  FeatureView labels;
};
// `data_loss`: the image or the list of labels is missing, or there are several images. The list may have any number of
// values. Does not allocate.
Result<ImageExample> parse_image_labels(std::string_view example, const ImageKeys& keys = {});
// The same; `data_loss` unless there is exactly one label.
Result<ImageExample> parse_image_example(std::string_view example, const ImageKeys& keys = {});

struct ImageFields {
  std::string_view encoded = {};
  std::int64_t label = 0;      // 1 is the first class
  std::string_view text = {};  // the class's name
  std::string_view filename = {};
  int height = 0;
  int width = 0;
  int channels = 3;
};
std::string make_image_example(const ImageFields& fields);

}  // namespace xoe::data

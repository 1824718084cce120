// tf.Example, the protocol-buffer message that TFRecord files usually hold: a map from names to lists of bytes, floats
// or integers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::data {

enum class FeatureKind : std::uint8_t { kEmpty, kBytes, kFloats, kIntegers };
std::string_view feature_kind_name(FeatureKind kind) noexcept;  // "bytes"

// One feature; views point into the parsed example.
struct Feature {
  std::string_view name;
  FeatureKind kind = FeatureKind::kEmpty;
  std::vector<std::string_view> bytes;
  std::vector<float> floats;
  std::vector<std::int64_t> integers;

  std::size_t count() const noexcept { return bytes.size() + floats.size() + integers.size(); }
};

// `data_loss` when it is no tf.Example. Of a name that comes twice the last one counts, as in protocol buffers.
Result<std::vector<Feature>> parse_example(std::string_view example);

// An image in the ImageNet layout (image/encoded, image/class/label, ...).
struct ImageExample {
  std::string_view encoded;
  std::int64_t label = 0;
};
// `data_loss` when image/encoded or image/class/label is missing.
Result<ImageExample> parse_image_example(std::string_view example);

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

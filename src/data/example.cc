#include "data/example.h"

#include <algorithm>
#include <protozero/pbf_message.hpp>
#include <protozero/pbf_writer.hpp>

#include "base/error.h"

namespace xoe::data {
namespace {

constexpr protozero::pbf_tag_type kFeatures = 1;  // of Example, and the map entries of Features
constexpr protozero::pbf_tag_type kKey = 1;
constexpr protozero::pbf_tag_type kValue = 2;  // of a map entry
constexpr protozero::pbf_tag_type kBytesList = 1;
constexpr protozero::pbf_tag_type kFloatList = 2;
constexpr protozero::pbf_tag_type kInt64List = 3;  // of Feature
constexpr protozero::pbf_tag_type kItems = 1;      // of each list
constexpr std::size_t kMaxFeatures = 1024;         // bounds the time that a hostile record takes

using Wire = protozero::pbf_wire_type;

std::string_view as_view(protozero::data_view view) { return {view.data(), view.size()}; }

void read_bytes(protozero::pbf_reader list, Feature& feature) {
  while (list.next(kItems, Wire::length_delimited)) feature.bytes.push_back(as_view(list.get_view()));
}

// Lists of numbers come packed or one by one; both must be read.
void read_floats(protozero::pbf_reader list, Feature& feature) {
  while (list.next(kItems)) {
    if (list.wire_type() == Wire::length_delimited)
      for (const float value : list.get_packed_float()) feature.floats.push_back(value);
    else if (list.wire_type() == Wire::fixed32)
      feature.floats.push_back(list.get_float());
    else
      list.skip();
  }
}

void read_integers(protozero::pbf_reader list, Feature& feature) {
  while (list.next(kItems)) {
    if (list.wire_type() == Wire::length_delimited)
      for (const std::int64_t value : list.get_packed_int64()) feature.integers.push_back(value);
    else if (list.wire_type() == Wire::varint)
      feature.integers.push_back(list.get_int64());
    else
      list.skip();
  }
}

void read_value(protozero::pbf_reader value, Feature& feature) {
  while (value.next()) {
    if (value.wire_type() != Wire::length_delimited || value.tag() < kBytesList || value.tag() > kInt64List) {
      value.skip();
      continue;
    }
    feature.kind = static_cast<FeatureKind>(value.tag());
    switch (value.tag()) {
      case kBytesList: read_bytes(value.get_message(), feature); break;
      case kFloatList: read_floats(value.get_message(), feature); break;
      default: read_integers(value.get_message(), feature); break;
    }
  }
}

Feature read_entry(protozero::pbf_reader entry) {
  Feature feature;
  while (entry.next()) {
    if (entry.wire_type() == Wire::length_delimited && entry.tag() == kKey)
      feature.name = as_view(entry.get_view());
    else if (entry.wire_type() == Wire::length_delimited && entry.tag() == kValue)
      read_value(entry.get_message(), feature);
    else
      entry.skip();
  }
  return feature;
}

void keep(std::vector<Feature>& features, Feature feature) {
  const auto same = std::find_if(features.begin(), features.end(),
                                 [&feature](const Feature& other) { return other.name == feature.name; });
  if (same == features.end())
    features.push_back(std::move(feature));
  else
    *same = std::move(feature);
}

const Feature* find(const std::vector<Feature>& features, std::string_view name) {
  for (const Feature& feature : features)
    if (feature.name == name) return &feature;
  return nullptr;
}

void add_feature(protozero::pbf_writer& features, std::string_view name, protozero::pbf_tag_type list_tag,
                 const std::string& list) {
  std::string value;
  protozero::pbf_writer(value).add_message(list_tag, list);
  protozero::pbf_writer entry(features, kFeatures);
  entry.add_bytes(kKey, name.data(), name.size());
  entry.add_message(kValue, value);
}

void add_bytes(protozero::pbf_writer& features, std::string_view name, std::string_view bytes) {
  std::string list;
  protozero::pbf_writer(list).add_bytes(kItems, bytes.data(), bytes.size());
  add_feature(features, name, kBytesList, list);
}

void add_integer(protozero::pbf_writer& features, std::string_view name, std::int64_t value) {
  std::string list;
  protozero::pbf_writer(list).add_packed_int64(kItems, &value, &value + 1);
  add_feature(features, name, kInt64List, list);
}

}  // namespace

std::string_view feature_kind_name(FeatureKind kind) noexcept {
  switch (kind) {
    case FeatureKind::kEmpty: break;
    case FeatureKind::kBytes: return "bytes";
    case FeatureKind::kFloats: return "float";
    case FeatureKind::kIntegers: return "int64";
  }
  return "empty";
}

Result<std::vector<Feature>> parse_example(std::string_view example) {
  std::vector<Feature> features;
  try {
    protozero::pbf_reader reader(example.data(), example.size());
    while (reader.next(kFeatures, Wire::length_delimited)) {
      protozero::pbf_reader map = reader.get_message();
      while (map.next(kFeatures, Wire::length_delimited)) {
        keep(features, read_entry(map.get_message()));
        if (features.size() > kMaxFeatures) return failure(Code::kDataLoss, "more than {} features", kMaxFeatures);
      }
    }
  } catch (const protozero::exception& error) {
    return failure(Code::kDataLoss, "no tf.Example: {}", error.what());
  }
  return features;
}

Result<ImageExample> parse_image_example(std::string_view example) {
  XOE_ASSIGN(const auto features, parse_example(example));
  const Feature* encoded = find(features, "image/encoded");
  const Feature* label = find(features, "image/class/label");
  if (encoded == nullptr || encoded->bytes.size() != 1)
    return failure(Code::kDataLoss, "no single image/encoded among {} features", features.size());
  if (label == nullptr || label->integers.size() != 1)
    return failure(Code::kDataLoss, "no single image/class/label among {} features", features.size());
  return ImageExample{encoded->bytes.front(), label->integers.front()};
}

std::string make_image_example(const ImageFields& fields) {
  std::string map;
  map.reserve(fields.encoded.size() + 512);
  protozero::pbf_writer features(map);
  add_integer(features, "image/height", fields.height);
  add_integer(features, "image/width", fields.width);
  add_integer(features, "image/channels", fields.channels);
  add_bytes(features, "image/colorspace", fields.channels == 1 ? "Gray" : "RGB");
  add_integer(features, "image/class/label", fields.label);
  add_bytes(features, "image/class/text", fields.text);
  add_bytes(features, "image/format", "JPEG");
  add_bytes(features, "image/filename", fields.filename);
  add_bytes(features, "image/encoded", fields.encoded);
  std::string example;
  protozero::pbf_writer(example).add_message(kFeatures, map);
  return example;
}

}  // namespace xoe::data

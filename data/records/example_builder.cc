#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "data/records/feature_parser.h"

namespace xoe::data {
namespace {

std::string make_feature(protozero::pbf_tag_type list_tag, const std::string& list) {
  std::string value;
  protozero::pbf_writer(value).add_message(list_tag, list);
  return value;
}

std::string bytes_feature(std::span<const std::string_view> values) {
  std::string list;
  protozero::pbf_writer writer(list);
  for (const std::string_view value : values) writer.add_bytes(kItems, value.data(), value.size());
  return make_feature(kBytesList, list);
}
std::string floats_feature(std::span<const float> values) {
  std::string list;
  protozero::pbf_writer(list).add_packed_float(kItems, values.begin(), values.end());
  return make_feature(kFloatList, list);
}
std::string integers_feature(std::span<const std::int64_t> values) {
  std::string list;
  protozero::pbf_writer(list).add_packed_int64(kItems, values.begin(), values.end());
  return make_feature(kInt64List, list);
}

void add_entry(std::string& map, std::string_view name, const std::string& value) {
  protozero::pbf_writer writer(map);
  protozero::pbf_writer entry(writer, kFeatures);
  entry.add_bytes(kKey, name.data(), name.size());
  entry.add_message(kValue, value);
}

}  // namespace

FeaturesBuilder& FeaturesBuilder::add_bytes(std::string_view name, std::string_view value) {
  return add_bytes(name, std::span(&value, 1));
}
FeaturesBuilder& FeaturesBuilder::add_bytes(std::string_view name, std::span<const std::string_view> values) {
  add_entry(features_, name, bytes_feature(values));
  return *this;
}
FeaturesBuilder& FeaturesBuilder::add_floats(std::string_view name, std::span<const float> values) {
  add_entry(features_, name, floats_feature(values));
  return *this;
}
FeaturesBuilder& FeaturesBuilder::add_integer(std::string_view name, std::int64_t value) {
  return add_integers(name, std::span(&value, 1));
}
FeaturesBuilder& FeaturesBuilder::add_integers(std::string_view name, std::span<const std::int64_t> values) {
  add_entry(features_, name, integers_feature(values));
  return *this;
}

std::string FeaturesBuilder::to_example() const {
  std::string example;
  protozero::pbf_writer(example).add_message(kFeatures, features_);
  return example;
}

std::string& SequenceExampleBuilder::steps(std::string_view list) {
  const auto same = std::find_if(lists_.begin(), lists_.end(), [list](const auto& one) { return one.first == list; });
  return same != lists_.end() ? same->second : lists_.emplace_back(list, std::string()).second;
}
SequenceExampleBuilder& SequenceExampleBuilder::add_bytes(std::string_view list,
                                                          std::span<const std::string_view> values) {
  protozero::pbf_writer(steps(list)).add_message(kItems, bytes_feature(values));
  return *this;
}
SequenceExampleBuilder& SequenceExampleBuilder::add_floats(std::string_view list, std::span<const float> values) {
  protozero::pbf_writer(steps(list)).add_message(kItems, floats_feature(values));
  return *this;
}
SequenceExampleBuilder& SequenceExampleBuilder::add_integers(std::string_view list,
                                                             std::span<const std::int64_t> values) {
  protozero::pbf_writer(steps(list)).add_message(kItems, integers_feature(values));
  return *this;
}

std::string SequenceExampleBuilder::to_example() const {
  std::string lists;
  for (const auto& [name, steps] : lists_) add_entry(lists, name, steps);
  std::string example;
  protozero::pbf_writer writer(example);
  writer.add_message(kFeatures, context_.features_);
  writer.add_message(kFeatureLists, lists);
  return example;
}

}  // namespace xoe::data

// Reads tf.Feature messages without copying them.
#pragma once

#include <protozero/pbf_message.hpp>
#include <string_view>

#include "core/base/error.h"
#include "xoe/data/example.h"

namespace xoe::data {

inline constexpr protozero::pbf_tag_type kFeatures = 1;      // of Example, and the map entries of Features
inline constexpr protozero::pbf_tag_type kFeatureLists = 2;  // of SequenceExample, whose `context` is 1
inline constexpr protozero::pbf_tag_type kKey = 1;           // of a map entry
inline constexpr protozero::pbf_tag_type kValue = 2;
inline constexpr protozero::pbf_tag_type kBytesList = 1;  // of Feature
inline constexpr protozero::pbf_tag_type kFloatList = 2;
inline constexpr protozero::pbf_tag_type kInt64List = 3;
inline constexpr protozero::pbf_tag_type kItems = 1;  // of each list, and the steps of FeatureList
inline constexpr std::size_t kMaxFeatures = 1024;     // bounds the time that a hostile record takes
using Wire = protozero::pbf_wire_type;

inline std::string_view as_view(protozero::data_view view) { return {view.data(), view.size()}; }

// All functions throw protozero::exception.
class FeatureParser {
 public:
  // Validates the whole Feature message, so that the view's functions cannot fail.
  static FeatureView feature(std::string_view name, protozero::pbf_reader value);
  // A map's entry: its key, and the message that is its value.
  static std::pair<std::string_view, protozero::pbf_reader> entry(protozero::pbf_reader entry);
  static FeatureView map_entry(protozero::pbf_reader reader) {
    const auto [name, value] = entry(reader);
    return feature(name, value);
  }

  // Calls visit(list) for the lists of the message's last kind: protobuf merges repeated values of a oneof that are of
  // one kind, and lets the last kind win.
  template <class Visit>
  static void for_each_list(std::string_view message, FeatureKind kind, const Visit& visit);
};

template <class Visit>
void FeatureParser::for_each_list(std::string_view message, FeatureKind kind, const Visit& visit) {
  // The last run of this kind begins behind the last list of another kind.
  protozero::pbf_reader scan(message.data(), message.size());
  protozero::pbf_reader from = scan;
  const auto is_list = [](const protozero::pbf_reader& reader) {
    return reader.wire_type() == Wire::length_delimited && reader.tag() >= kBytesList && reader.tag() <= kInt64List;
  };
  while (scan.next()) {
    const bool other = is_list(scan) && static_cast<FeatureKind>(scan.tag()) != kind;
    scan.skip();
    if (other) from = scan;
  }
  while (from.next()) {
    if (is_list(from))
      visit(from.get_message());
    else
      from.skip();
  }
}

// Runs f() and turns what protozero throws into an error.
template <class F>
Status parsed(std::string_view what, const F& f) {
  try {
    return f();
  } catch (const protozero::exception& error) {
    return failure(Code::kDataLoss, "no {}: {}", what, error.what());
  }
}

}  // namespace xoe::data

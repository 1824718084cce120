// Tells that the label of class 0 was assumed, where the data do not show it.
#pragma once

#include <cstdint>
#include <string>

#include "data/source/image_source.h"
#include "xoe/status.h"

namespace xoe::data {

// Stored labels of some records.
struct LabelsSeen {
  std::int64_t records = 0;  // that were looked at
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  bool confirmed = false;  // a record names its class as the data set names its label
};

// Which label_offset was assumed, from what, and how to say it outright; empty: it was given, is certain for the
// layout, or the labels show it: a record names its class, or the highest label fits no other offset.
std::string describe_assumed_offset(const ImageSource& source, const std::string& directory, const LabelsSeen& seen);

// The same from some records, the first and the last among them. `invalid_argument`: one of them has a label 0, so the
// offset cannot be assumed; the error names it. Records that cannot be read are passed over.
Result<std::string> check_assumed_offset(const ImageSource& source, const std::string& directory, int threads);

}  // namespace xoe::data

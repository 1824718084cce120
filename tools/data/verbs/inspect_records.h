// The content of one TFRecord file, plain or compressed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "xoe/status.h"

namespace xoe::tools {

struct InspectRequest {
  std::string path;
  std::int64_t records = 3;            // shown one by one
  std::optional<std::int64_t> record;  // or this one in full
  bool sequence = false;               // as tf.SequenceExample
  bool json = false;
};

// Print to stdout.
Status inspect_records(const InspectRequest& request);  // reads the whole file
Status inspect_one_record(const InspectRequest& request);

}  // namespace xoe::tools

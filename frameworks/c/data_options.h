// Options of the input pipeline, and the objects behind the opaque pointers of c_data.h.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "core/base/env.h"
#include "core/bootstrap/status_page.h"
#include "frameworks/c/warnings.h"
#include "xoe/c_data.h"
#include "xoe/data/images.h"
#include "xoe/data/records.h"
#include "xoe/data/stages.h"

namespace xoe::capi {

// The options of xoe_records_open(); c_data.h says what each means.
struct RecordsOptions {
  int rank = 0;
  int size = 1;
  bool shard_by_file = true;
  bool shuffle_files = false;
  std::int64_t shuffle_buffer = 0;
  data::InterleaveOptions interleave = {.cycle_length = 1};
  std::uint64_t seed = 0;
  std::int64_t epochs = 0;
  bool allow_missing = false;
  data::RecordOptions reading = {};
};

}  // namespace xoe::capi

struct xoe_images_options {
  mutable std::mutex mutex;
  xoe::data::ImagePipelineOptions options;
};

struct xoe_records_options {
  mutable std::mutex mutex;
  xoe::capi::RecordsOptions options;
};

struct xoe_images {
  explicit xoe_images(xoe::data::ImagePipelineOptions& options) : warnings(options.warn) {
    options.warn = [this](std::string_view line) { warnings.add(line); };
  }

  std::mutex mutex;  // an iterator is for one thread at a time
  xoe::bootstrap::StatusWriter launcher = xoe::bootstrap::StatusWriter::of_process(xoe::Env::process());
  xoe::capi::Warnings warnings;
  std::unique_ptr<xoe::data::ImageIterator> iterator;  // last: it warns as it ends
};

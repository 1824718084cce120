// What the opaque pointers of c_data.h point at.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "capi/data_options.h"
#include "xoe/c_data.h"
#include "xoe/data/images.h"

struct xoe_images_options {
  mutable std::mutex mutex;
  xoe::data::ImagePipelineOptions options;
};

struct xoe_records_options {
  mutable std::mutex mutex;
  xoe::capi::RecordsOptions options;
};

struct xoe_images {
  std::mutex mutex;  // an iterator is for one thread at a time
  std::unique_ptr<xoe::data::ImageIterator> iterator;
};

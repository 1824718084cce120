// Notices records that lie sorted by class where a shuffle buffer cannot mix them.
#pragma once

#include <string>

#include "data/source/image_source.h"
#include "xoe/data/images.h"

namespace xoe::data {

// Describes the problem and what to do, if records of one class lie so closely together that options.shuffle_buffer
// reaches few classes at a time; empty: all is well, the order is drawn from all records, or it is not shuffled at all.
// Reads some two hundred records, on rank 0 alone. REQUIRES: options.shuffle_buffer is no longer kAutoShuffle.
std::string describe_runs(const ImageSource& source, const ImagePipelineOptions& options);

}  // namespace xoe::data

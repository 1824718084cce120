// Checks options of the image pipeline against the ranges that image_fields.h has.
#pragma once

#include "xoe/data/images.h"

namespace xoe::data {

// `invalid_argument` names the first that is not, and its range.
Status check_ranges(const ImagePipelineOptions& options);

}  // namespace xoe::data

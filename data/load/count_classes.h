// The number of classes where only the labels tell it.
#pragma once

#include "data/source/image_source.h"
#include "xoe/data/images.h"

namespace xoe::data {

// One more than the highest class of all records, whose labels it reads in options.threads threads. Leaves bad records
// out with OnError::kSkip, else returns the error of the first one. REQUIRES: !source.multi_label().
Result<int> count_classes(const ImageSource& source, const ImagePipelineOptions& options);

}  // namespace xoe::data

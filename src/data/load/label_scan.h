// Counts the classes of a data set whose layout does not give their number.
#pragma once

#include "data/source/image_source.h"
#include "xoe/data/images.h"

namespace xoe::data {

// One more than the highest label of all records, counted from the source's label_offset(). Reads them all, with
// options.threads threads; leaves bad ones out with OnError::kSkip, else returns the error of the first bad record.
Result<int> count_classes(const ImageSource& source, const ImagePipelineOptions& options);

}  // namespace xoe::data

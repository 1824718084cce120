// Finds out how many classes there are where the layout does not tell.
#pragma once

#include "data/source/image_source.h"

namespace xoe::data {

struct ClassCount {
  int label_offset = 1;
  bool skip_bad = false;  // leaves out what may_skip()
  int threads = 1;        // besides the caller's when above 1
};
// One more than the highest label of all records. Reads them all. The error is that of the first bad record.
Result<int> count_classes(const ImageSource& source, const ClassCount& count);

}  // namespace xoe::data

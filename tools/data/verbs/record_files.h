// Finds record files.
#pragma once

#include <string>
#include <vector>

#include "xoe/status.h"

namespace xoe::tools {

// A file itself; of a directory its train-*, validation-*, val-*, test-* and *.tfrecord* files, sorted. `unavailable`:
// there is none.
Result<std::vector<std::string>> record_files(const std::string& path);

}  // namespace xoe::tools

// Which files hold records.
#pragma once

#include <string>
#include <vector>

#include "xoe/status.h"

namespace xoe::tools {

// A file itself; of a directory those called train-*, validation-*, val-*, test-* or *.tfrecord*, sorted.
// `unavailable`: there is none.
Result<std::vector<std::string>> record_files(const std::string& path);

}  // namespace xoe::tools

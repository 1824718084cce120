// Reads a whole file, or a pipe to its end.
#pragma once

#include <string>

#include "xoe/status.h"

namespace xoe {

// `invalid_argument` says why it cannot be read: "cannot read it: Is a directory".
Result<std::string> read_text_file(const std::string& path);

}  // namespace xoe

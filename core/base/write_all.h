// Writing to files, and the error when that fails.
#pragma once

#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe {

// "cannot write PATH: why": `resource_exhausted` where space or a quota is used up, else `unavailable`.
tl::unexpected<Error> cannot_write(const std::string& path, int error_number);

// All bytes, at the descriptor's position; `path` is for the error only.
Status write_all(int fd, const std::string& path, std::string_view bytes);

}  // namespace xoe

// Files that are of no format of data sets, though users may take them for one.
#pragma once

#include <string>
#include <string_view>

namespace xoe::data {

// "a JPEG image", "a ZIP archive", by the first bytes of a regular file, none of which can begin a record file; empty:
// nothing speaks against it.
std::string_view foreign_kind(const std::string& path);

}  // namespace xoe::data

// Files that are of no format of data sets, though users may take them for one.
#pragma once

#include <string>
#include <string_view>

namespace xoe::data {

// foreign_kind_of() the first bytes of a regular file: "a JPEG image", "a ZIP archive". Empty: nothing speaks against
// it.
std::string_view foreign_kind(const std::string& path);

}  // namespace xoe::data

// What bytes are that are not what their file's name says.
#pragma once

#include <string>
#include <string_view>

namespace xoe::data {

// "a JPEG image", "a ZIP archive", "a pointer of Git LFS, ...": by the first bytes, none of which can begin a record or
// an idx file, or a tar archive. 64 bytes tell all kinds, 12 most of them. Empty: nothing speaks against it.
std::string_view foreign_kind_of(std::string_view begin) noexcept;

// For bytes that should be an image: "134 bytes that are neither JPEG nor PNG, but a pointer of Git LFS, ...".
std::string describe_no_image(std::string_view bytes);

}  // namespace xoe::data

// What is in directories and small files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::data {

struct Listing {
  std::vector<std::string> files;  // names of regular files, or links to some, sorted; hidden ones never
  std::vector<std::string> folders;
};
// `unavailable`: it cannot be listed.
Result<Listing> list_directory(const std::string& path);

bool is_directory(const std::string& path);

// All of a file. `data_loss`: it has more than `most` bytes, which nothing sensible has.
Result<std::string> read_whole(const std::string& path, std::size_t most);
// The same into a buffer that keeps its memory.
Status read_whole(const std::string& path, std::size_t most, std::string& buffer);

// Lines of a small text file without empty ones and without "\r".
Result<std::vector<std::string>> read_lines(const std::string& path);

// "a/b.TXT", ".txt": whether the name ends so, in any case of ASCII letters.
bool has_extension(std::string_view name, std::string_view extension) noexcept;
bool is_image_name(std::string_view name) noexcept;  // .jpg, .jpeg, .png

}  // namespace xoe::data

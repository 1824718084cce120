#include "data/files/foreign.h"

#include <algorithm>
#include <array>

#include "data/files/byte_source.h"
#include "data/files/foreign_bytes.h"
#include "data/files/missing.h"

namespace xoe::data {
std::string_view foreign_kind(const std::string& path) {
  constexpr std::size_t kLongest = 64;
  if (!size_of_file(path)) return {};
  const auto file = OpenFile::open(path);
  std::array<char, kLongest> bytes = {};
  const std::size_t count = file ? std::min<std::size_t>(file->bytes, bytes.size()) : 0;
  if (count == 0 || !file->read_at(0, bytes.data(), count)) return {};
  return foreign_kind_of({bytes.data(), count});
}

}  // namespace xoe::data

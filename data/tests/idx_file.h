// Writes idx files for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/testing/scratch.h"

namespace xoe::data {

// An array of bytes; `item_sizes` are the dimensions of an item, none for labels.
inline void write_idx(const std::string& path, const std::vector<std::uint32_t>& item_sizes,
                      const std::vector<std::string>& items) {
  std::string content = {0, 0, 8, static_cast<char>(item_sizes.size() + 1)};
  const auto append = [&content](std::size_t size) {
    for (int shift = 24; shift >= 0; shift -= 8) content.push_back(static_cast<char>((size >> shift) & 0xff));
  };
  append(items.size());
  for (const std::uint32_t size : item_sizes) append(size);
  for (const std::string& item : items) content += item;
  put_file(path, content);
}

}  // namespace xoe::data

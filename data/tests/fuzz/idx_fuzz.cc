// IDX files, plain and in GZIP: any bytes; every item can be read.
#include <algorithm>

#include "core/testing/fuzz/memory_file.h"
#include "data/files/idx.h"
#include "target.h"

XOE_FUZZ_TARGET(idx_fuzz) {
  const xoe::MemoryFile file({reinterpret_cast<const char*>(bytes), size});
  const auto array = xoe::data::IdxArray::open(file.path());
  if (!array) return 0;
  constexpr std::int64_t kSome = 1000;
  std::string buffer;
  std::size_t sum = 0;
  for (std::int64_t i = 0; i < std::min(array->items(), kSome); ++i) {
    const auto item = array->read(i, buffer);
    xoe::require(item && item->size() == array->item_bytes());
    for (const char byte : *item) sum += static_cast<std::uint8_t>(byte);
  }
  // Keeps the reads above, whose overruns a sanitizer shall see.
  [[maybe_unused]] static volatile std::size_t consumed;
  consumed = sum;
  return 0;
}

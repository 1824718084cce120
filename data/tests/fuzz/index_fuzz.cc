// Index files. The first byte chooses whether the CRC is made right. An index that can be read is written as it was.
#include <algorithm>

#include "core/base/bytes.h"
#include "core/testing/fuzz/memory_file.h"
#include "data/records/crc32c.h"
#include "data/records/file_index.h"
#include "target.h"

namespace {

using namespace xoe::data;
using xoe::append_little;
using xoe::load_little;

// The stamp that the file says it was made of.
FileStamp stamp_within(std::string_view content) {
  constexpr std::size_t kAt = 16;
  if (content.size() < kAt + 20) return {};
  return {load_little<std::uint64_t>(content.data() + kAt),
          static_cast<std::int64_t>(load_little<std::uint64_t>(content.data() + kAt + 8)),
          load_little<std::uint32_t>(content.data() + kAt + 16)};
}

}  // namespace

XOE_FUZZ_TARGET(index_fuzz) {
  if (size == 0) return 0;
  std::string content(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  if (bytes[0] % 2 == 1 && content.size() >= 12) {
    content.replace(0, 8, "XOEINDEX");
    content.resize(content.size() - 4);
    append_little(content, crc32c(content));
  }
  const FileStamp stamp = stamp_within(content);
  const auto index = decode_index(content, stamp);
  if (!index) return 0;
  xoe::require(encode_index(*index, stamp) == content);
  std::uint64_t end = 0;
  for (const RecordExtent& place : index->records) {
    xoe::require(place.offset >= end);
    end = place.end();
  }
  if (index->compression == Compression::kNone) xoe::require(end <= stamp.bytes);
  return 0;
}

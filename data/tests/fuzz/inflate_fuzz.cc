// Compressed record files. The first byte chooses the compression, and whether the bytes are such a file or what it
// holds, with how many CRCs made right.
#include <algorithm>
#include <vector>

#include "core/testing/fuzz/memory_file.h"
#include "data/records/record_index.h"
#include "data/tests/fuzz/compressed.h"
#include "data/tests/fuzz/record_repair.h"
#include "target.h"
#include "xoe/data/records.h"

namespace {

using namespace xoe::data;
using xoe::require;

std::vector<Record> read_stream(const std::string& path, Compression compression) {
  const RecordOptions options{.compression = compression,
                              .on_error = OnError::kSkip,
                              .max_bad = std::int64_t{1} << 40,
                              .bad = nullptr,
                              .block_bytes = 4096};
  auto iterator = read_records(path, options)->iterate(0).value();
  std::vector<Record> records;
  for (auto record = iterator->next().value(); record; record = iterator->next().value()) records.push_back(*record);
  return records;
}

}  // namespace

XOE_FUZZ_TARGET(inflate_fuzz) {
  if (size == 0) return 0;
  std::string content(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  const Compression compression = (bytes[0] & 1) != 0 ? Compression::kGzip : Compression::kZlib;
  if ((bytes[0] & 6) != 0) {
    repair(content, (bytes[0] & 6) == 2);
    content = xoe::compressed(content, compression);
  }
  const xoe::MemoryFile file(content);
  const auto records = read_stream(file.path(), compression);
  const RecordIndexOptions options{.compression = compression,
                                   .on_error = OnError::kSkip,
                                   .max_lost = std::int64_t{1} << 40,
                                   .use_index_files = false};
  const auto index = RecordIndex::open({file.path()}, options).value();
  // By number the same records come as one after the other.
  constexpr std::int64_t kSome = 8;
  std::string buffer;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < std::min(index->records(), kSome); ++i)
    if (const auto data = index->read(i, buffer)) {
      require(at < records.size() && records[at].data == *data);
      ++at;
    }
  (void)read_records(file.path())->iterate(0).value()->next();
  return 0;
}

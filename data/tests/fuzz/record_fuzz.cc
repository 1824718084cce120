// TFRecord framing: any bytes as a file, read at any place, as a stream and behind damage. The first byte chooses how
// many CRCs are made right.
#include "core/testing/fuzz/memory_file.h"
#include "data/records/file_index.h"
#include "data/records/record_file.h"
#include "data/tests/fuzz/record_repair.h"
#include "target.h"
#include "xoe/data/records.h"

namespace {

using namespace xoe::data;
using xoe::require;

// Number of records, which lie in the file one behind the other; a right one is never given twice.
std::int64_t read_stream(const std::string& path, std::size_t bytes, OnError on_error) {
  const RecordOptions options{.compression = Compression::kNone,
                              .on_error = on_error,
                              .max_bad = std::int64_t{1} << 40,
                              .bad = std::make_shared<BadRecords>(),
                              .block_bytes = 4096};
  auto iterator = read_records(path, options)->iterate(0).value();
  std::uint64_t end = 0;
  for (std::int64_t count = 0;; ++count) {
    const auto record = iterator->next();
    if (on_error == OnError::kSkip) require(record.has_value());
    if (!record || !*record) return count;
    require((*record)->offset >= end);
    end = (*record)->offset + kRecordHeader + (*record)->data.size() + kRecordFooter;
    require(end <= bytes);
  }
}

std::int64_t read_extents(const std::string& path, std::size_t bytes) {
  const auto opened = std::make_shared<const OpenFile>(OpenFile::open(path).value());
  const auto index = make_index(opened, {.compression = Compression::kNone});
  if (!index) return -1;
  const RecordFile file(opened);
  const auto& places = index->records;
  std::string buffer;
  std::int64_t good = 0;
  for (const RecordExtent& place : places)
    if (const auto data = file.read(place, good, buffer)) {
      require(data->size() == place.length);
      ++good;
    }
  require(places.empty() || places.back().end() == bytes);
  return good;
}

// Records and lost ranges make up the whole file.
std::uint64_t index_bytes(const std::string& path) {
  const auto file = std::make_shared<const OpenFile>(OpenFile::open(path).value());
  const auto index = make_index(
      file, {.compression = Compression::kNone, .on_error = OnError::kSkip, .max_lost = std::int64_t{1} << 40});
  std::uint64_t bytes = 0;
  for (const RecordExtent& place : index.value().records) bytes += place.end() - place.offset;
  for (const LostRange& range : index.value().lost) bytes += range.bytes;
  return bytes;
}

}  // namespace

XOE_FUZZ_TARGET(record_fuzz) {
  if (size == 0) return 0;
  std::string content(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  if (bytes[0] % 4 != 0) repair(content, bytes[0] % 4 == 1);
  const xoe::MemoryFile file(content);
  const std::int64_t placed = read_extents(file.path(), content.size());
  const std::int64_t strict = read_stream(file.path(), content.size(), OnError::kFail);
  const std::int64_t lenient = read_stream(file.path(), content.size(), OnError::kSkip);
  require(lenient >= strict);
  if (placed >= 0) require(lenient == placed);  // where the framing is right, both agree
  require(index_bytes(file.path()) == content.size());
  (void)read_records(file.path())->iterate(0).value()->next();  // whatever compression it looks like
  return 0;
}

// The index of a record file, kept beside it as FILE.xoeindex; docs/formats/index.md describes that file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/inflate.h"
#include "data/records/record_file.h"

namespace xoe::data {

// Bytes that belong to no record because the framing is damaged. `bytes` is 0 where the stream of a compressed file
// breaks, which only the last range can be.
struct LostRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const LostRange&, const LostRange&) = default;
};

struct FileIndex {
  Compression compression = Compression::kNone;
  std::vector<RecordExtent> records;   // offsets within the file, or within the decompressed bytes
  std::vector<RestartPoint> restarts;  // of compressed files
  std::vector<LostRange> lost;
};

struct IndexOptions {
  Compression compression = Compression::kAuto;
  OnError on_error = OnError::kFail;  // kSkip: damaged framing is left out, up to `max_lost` ranges
  std::int64_t max_lost = 100;
};

// Reads the headers of a plain file, or all of a compressed one. Does not check the CRCs of the data.
Result<FileIndex> make_index(const std::shared_ptr<const OpenFile>& file, const IndexOptions& options);

// Distinguishes one state of a file from another.
struct FileStamp {
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970
  std::uint32_t ends = 0;     // CRC-32C of its first and its last 4 KiB

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
Result<FileStamp> stamp_file(const OpenFile& file);

bool is_index(std::string_view content) noexcept;  // by its first bytes
std::string encode_index(const FileIndex& index, const FileStamp& stamp);
// `data_loss`: not an index file, or damaged; `invalid_argument`: the record file has changed since.
Result<FileIndex> decode_index(std::string_view content, const FileStamp& stamp);

// Reads the index beside a file. `unavailable`: there is none.
Result<FileIndex> load_index(const OpenFile& file);
// Makes and writes the index, which appears whole or not at all. `invalid_argument`: a file of that name is there, and
// is none of Xoe's.
Result<FileIndex> write_index(const std::string& path, const IndexOptions& options);

}  // namespace xoe::data

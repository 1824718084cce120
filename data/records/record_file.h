// Random access to plain TFRecord files; docs/formats/tfrecord.md describes them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/byte_source.h"
#include "xoe/status.h"

namespace xoe::data {

// A record is a header (length, and its CRC), the data, and a footer (the data's CRC).
inline constexpr std::uint64_t kRecordHeader = 12;
inline constexpr std::uint64_t kRecordFooter = 4;
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 31;

// The bytes of a record in its file, or in the decompressed bytes.
struct RecordExtent {
  std::uint64_t offset = 0;  // of the header
  std::uint64_t length = 0;  // of the data

  std::uint64_t end() const noexcept { return offset + kRecordHeader + length + kRecordFooter; }
};

// Thread safety: any number of threads may read at a time, each with a buffer of its own.
class RecordFile {
 public:
  explicit RecordFile(std::shared_ptr<const OpenFile> file) : file_(std::move(file)) {}

  const std::string& path() const noexcept { return file_->path; }
  std::uint64_t bytes() const noexcept { return file_->bytes; }

  // The record whose header is at `offset`, which must lie before the end of the file. Checks the header's CRC, and
  // that the record lies within the file. `number` counts the file's records from 0, for messages.
  Result<RecordExtent> extent_at(std::uint64_t offset, std::int64_t number) const;

  // The data of a record, within `buffer`. Checks the header again, and the CRC of the data.
  Result<std::string_view> read(const RecordExtent& extent, std::int64_t number, std::string& buffer) const;

 private:
  Status read_at(std::uint64_t offset, char* to, std::size_t count, std::int64_t number) const;

  std::shared_ptr<const OpenFile> file_;
};

// "DIR/train-00000-of-00004: record 17 at byte 90112": how every message about a record begins.
std::string record_name(const std::string& path, std::int64_t number, std::uint64_t offset);

// Whether the CRC of the length in a header is right. REQUIRES: header.size() == kRecordHeader.
bool is_record_header(std::string_view header) noexcept;
// The length in a header whose CRC is right.
Result<std::uint64_t> parse_record_header(std::string_view header);

}  // namespace xoe::data

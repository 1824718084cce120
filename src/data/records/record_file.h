// Reads plain TFRecord files at any place; docs/formats/tfrecord.md describes them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/records/byte_source.h"
#include "xoe/status.h"

namespace xoe::data {

// A record is a header (length, and its CRC), the data, and a footer (the data's CRC).
inline constexpr std::uint64_t kRecordHeader = 12;
inline constexpr std::uint64_t kRecordFooter = 4;
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 31;

struct RecordPlace {
  std::uint64_t offset = 0;  // of the header
  std::uint64_t length = 0;  // of the data

  std::uint64_t end() const noexcept { return offset + kRecordHeader + length + kRecordFooter; }
};

// Thread safety: any number of threads may read at a time, each with a buffer of its own.
class RecordFile {
 public:
  // `unavailable`: it cannot be opened, or is no regular file.
  static Result<RecordFile> open(const std::string& path);

  explicit RecordFile(std::shared_ptr<const OpenFile> file) : file_(std::move(file)) {}

  const std::string& path() const noexcept { return file_->path; }
  std::uint64_t bytes() const noexcept { return file_->bytes; }

  // The place of the record whose header is at `offset`, which lies before the end of the file. Checks that header's
  // CRC and that the record lies within the file. `number` counts the file's records from 0 and is for messages.
  Result<RecordPlace> place_at(std::uint64_t offset, std::int64_t number) const;

  // All records. Reads the headers alone.
  Result<std::vector<RecordPlace>> scan() const;

  // The data of a record, within `buffer`. Checks everything again, and the data's CRC.
  Result<std::string_view> read(const RecordPlace& place, std::int64_t number, std::string& buffer) const;

 private:
  Status read_at(std::uint64_t offset, char* to, std::size_t count, std::int64_t number) const;

  std::shared_ptr<const OpenFile> file_;
};

// "DIR/train-00000-of-00004: record 17 at byte 90112": how every message about a record begins.
std::string record_name(const std::string& path, std::int64_t number, std::uint64_t offset);

// Whether the CRC of a header's length is right. REQUIRES: header.size() == kRecordHeader.
bool is_record_header(std::string_view header) noexcept;
// The length in a header, when that is so.
Result<std::uint64_t> parse_record_header(std::string_view header);

}  // namespace xoe::data

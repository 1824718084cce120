// Reads TFRecord files; docs/formats/tfrecord.md describes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
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

  const std::string& path() const noexcept { return path_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  // The place of the record whose header is at `offset`, which lies before the end of the file. Checks that header's
  // CRC and that the record lies within the file. `number` counts the file's records from 0 and is for messages.
  Result<RecordPlace> place_at(std::uint64_t offset, std::int64_t number) const;

  // All records. Reads the headers alone.
  Result<std::vector<RecordPlace>> scan() const;

  // The data of a record, within `buffer`. Checks everything again, and the data's CRC.
  Result<std::string_view> read(const RecordPlace& place, std::int64_t number, std::string& buffer) const;

 private:
  RecordFile(std::string path, Fd fd, std::uint64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}

  Status read_at(std::uint64_t offset, char* to, std::size_t bytes, std::int64_t number) const;

  std::string path_;
  Fd fd_;
  std::uint64_t bytes_ = 0;
};

// "DIR/train-00000-of-00004: record 17 at byte 90112": how every message about a record begins.
std::string record_name(const std::string& path, std::int64_t number, std::uint64_t offset);

// The length in a header, when its CRC is right: exposed for fuzzing.
Result<std::uint64_t> parse_record_header(std::string_view header);

}  // namespace xoe::data

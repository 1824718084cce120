#include "data/records/record_file.h"

#include <array>

#include "core/base/bytes.h"
#include "data/failure_in.h"
#include "data/files/foreign_bytes.h"
#include "data/records/crc32c.h"

namespace xoe::data {
std::string record_name(const std::string& path, std::int64_t number, std::uint64_t offset) {
  return fmt::format("{}: record {} at byte {}", path, number, offset);
}

Result<std::uint64_t> parse_record_header(std::string_view header) {
  if (header.size() != kRecordHeader) return failure(Code::kDataLoss, "a header of {} bytes", header.size());
  if (!is_record_header(header)) {
    const std::string_view kind = foreign_kind_of(header);
    return failure(Code::kDataLoss, "the CRC of its length is wrong{}{}",
                   kind.empty() ? "" : "; its bytes are those of ", kind);
  }
  return load_little<std::uint64_t>(header.data());
}

bool is_record_header(std::string_view header) noexcept {
  return load_little<std::uint32_t>(header.data() + 8) == mask_crc(crc32c(header.substr(0, 8)));
}

Status RecordFile::read_at(std::uint64_t offset, char* to, std::size_t count, std::int64_t number) const {
  const Status got = file_->read_at(offset, to, count);
  if (got) return {};
  return failure_in(record_name(path(), number, offset), got.error());
}

Result<RecordExtent> RecordFile::extent_at(std::uint64_t offset, std::int64_t number) const {
  const std::uint64_t left = bytes() - offset;
  if (left < kRecordHeader)
    return failure(Code::kDataLoss, "{}: truncated: {} of the header's {} bytes are there",
                   record_name(path(), number, offset), left, kRecordHeader);
  std::array<char, kRecordHeader> header;
  XOE_TRY(read_at(offset, header.data(), header.size(), number));
  const auto length = parse_record_header({header.data(), header.size()});
  if (!length) return failure(Code::kDataLoss, "{}: {}", record_name(path(), number, offset), length.error().message());
  if (*length > kMaxRecordBytes)
    return failure(Code::kDataLoss, "{}: a length of {} bytes; at most {} are read",
                   record_name(path(), number, offset), *length, kMaxRecordBytes);
  const std::uint64_t whole = kRecordHeader + *length + kRecordFooter;
  if (left < whole)
    return failure(Code::kDataLoss, "{}: truncated: {} of its {} bytes are there", record_name(path(), number, offset),
                   left, whole);
  return RecordExtent{offset, *length};
}

Result<std::string_view> RecordFile::read(const RecordExtent& extent, std::int64_t number, std::string& buffer) const {
  const std::uint64_t whole = kRecordHeader + extent.length + kRecordFooter;
  buffer.resize(whole);
  XOE_TRY(read_at(extent.offset, buffer.data(), whole, number));
  const auto length = parse_record_header(std::string_view(buffer).substr(0, kRecordHeader));
  if (!length || *length != extent.length)
    return failure(Code::kDataLoss, "{}: {}", record_name(path(), number, extent.offset),
                   length ? "its length changed while the file was in use" : length.error().message());
  const std::string_view data = std::string_view(buffer).substr(kRecordHeader, extent.length);
  if (load_little<std::uint32_t>(data.data() + data.size()) != mask_crc(crc32c(data)))
    return failure(Code::kDataLoss, "{}: the CRC of its {} bytes of data is wrong",
                   record_name(path(), number, extent.offset), extent.length);
  return data;
}

}  // namespace xoe::data

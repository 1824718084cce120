#include "data/records/compression.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "data/files/inflate.h"
#include "data/records/record_file.h"

namespace xoe::data {
namespace {

// Whether a file decompresses to bytes that begin with a record's header, or to fewer bytes than a header has.
bool holds_records(const std::shared_ptr<const OpenFile>& file, Compression compression) {
  const auto head = inflate_head(file, compression, kRecordHeader);
  return head && (head->size() < kRecordHeader || parse_record_header(*head));
}

}  // namespace

bool holds_records(const std::shared_ptr<const OpenFile>& file) {
  const auto compression = detect_compression(file);
  if (!compression) return false;
  const auto head = *compression == Compression::kNone ? read_head(*file, kRecordHeader)
                                                       : inflate_head(file, *compression, kRecordHeader);
  return head && head->size() == kRecordHeader && parse_record_header(*head);
}

Result<Compression> detect_compression(const std::shared_ptr<const OpenFile>& file) {
  std::array<char, kRecordHeader> header;
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(header.size(), file->bytes));
  XOE_TRY(file->read_at(0, header.data(), count));
  if (parse_record_header({header.data(), count})) return Compression::kNone;
  const auto at = [&](std::size_t i) { return i < count ? static_cast<std::uint8_t>(header[i]) : 0; };
  if (at(0) == 0x1f && at(1) == 0x8b && at(2) == 8) return Compression::kGzip;
  // RFC 1950. One in a thousand damaged plain files begins like this, too, so the content is checked.
  if ((at(0) & 0x8f) == 8 && (at(0) * 256 + at(1)) % 31 == 0 && holds_records(file, Compression::kZlib))
    return Compression::kZlib;
  return Compression::kNone;
}

}  // namespace xoe::data

// The bytes of an index file.
#include <optional>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/records/crc32c.h"
#include "data/records/file_index.h"

namespace xoe::data {
namespace {

constexpr std::string_view kMagic = "XOEINDEX";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kLostBytes = 16;
constexpr std::size_t kRestartBytes = 20;  // before the window

std::uint32_t code_of(Compression compression) {
  return compression == Compression::kGzip ? 1 : compression == Compression::kZlib ? 2 : 0;
}

struct IndexCounts {
  std::uint64_t records;
  std::uint64_t lost;
  std::uint64_t restarts;
};

bool read_lost(ByteReader& bytes, std::uint64_t count, FileIndex& index) {
  if (count > bytes.left() / kLostBytes) return false;
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const LostRange range{bytes.fixed<std::uint64_t>(), bytes.fixed<std::uint64_t>()};
    const bool rest = i + 1 == count && index.compression != Compression::kNone;
    if (range.offset < end || (range.bytes == 0 && !rest) || range.bytes > ~range.offset) return false;
    end = range.offset + range.bytes;
    index.lost.push_back(range);
  }
  return true;
}

// Records follow each other without gaps other than the lost ranges. Returns the end of the last one; nullopt: damaged.
std::optional<std::uint64_t> read_extents(ByteReader& bytes, std::uint64_t count, FileIndex& index) {
  if (count > bytes.left() / sizeof(std::uint32_t)) return std::nullopt;
  index.records.reserve(count);
  std::uint64_t at = 0;
  auto lost = index.lost.begin();
  const auto pass = [&] {
    for (; lost != index.lost.end() && lost->offset == at && lost->bytes > 0; ++lost) at += lost->bytes;
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    pass();
    const RecordExtent extent{at, bytes.fixed<std::uint32_t>()};
    if (extent.length > kMaxRecordBytes || extent.end() < at) return std::nullopt;
    index.records.push_back(extent);
    at = extent.end();
  }
  pass();
  if (lost != index.lost.end() && !(lost->offset == at && lost->bytes == 0)) return std::nullopt;
  return at;
}

bool read_restarts(ByteReader& bytes, std::uint64_t count, std::uint64_t file_bytes, FileIndex& index) {
  if (count > bytes.left() / kRestartBytes || (count > 0 && index.compression == Compression::kNone)) return false;
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    RestartPoint point;
    point.in = bytes.fixed<std::uint64_t>();
    point.out = bytes.fixed<std::uint64_t>();
    const auto bits = bytes.fixed<std::uint16_t>();
    const auto window = bytes.fixed<std::uint16_t>();
    if (bits > 7 || window > kInflateWindow || point.in < in || point.in == 0 || point.in > file_bytes ||
        point.out <= out)
      return false;
    point.bits = static_cast<std::uint8_t>(bits);
    point.window = bytes.raw(window);
    in = point.in;
    out = point.out;
    index.restarts.push_back(std::move(point));
  }
  return bytes.ok();
}

}  // namespace

bool is_index(std::string_view content) noexcept { return content.starts_with(kMagic); }

std::string encode_index(const FileIndex& index, const FileStamp& stamp) {
  std::string out(kMagic);
  append_little(out, kVersion);
  append_little(out, code_of(index.compression));
  append_little(out, stamp.bytes);
  append_little(out, static_cast<std::uint64_t>(stamp.modified));
  append_little(out, stamp.ends);
  append_little<std::uint64_t>(out, index.records.size());
  append_little<std::uint64_t>(out, index.lost.size());
  append_little<std::uint64_t>(out, index.restarts.size());
  for (const LostRange& range : index.lost) {
    append_little(out, range.offset);
    append_little(out, range.bytes);
  }
  for (const RecordExtent& extent : index.records) append_little(out, static_cast<std::uint32_t>(extent.length));
  for (const RestartPoint& point : index.restarts) {
    append_little(out, point.in);
    append_little(out, point.out);
    append_little<std::uint16_t>(out, point.bits);
    append_little(out, static_cast<std::uint16_t>(point.window.size()));
    out += point.window;
  }
  append_little(out, crc32c(out));
  return out;
}

Result<FileIndex> decode_index(std::string_view content, const FileStamp& stamp) {
  constexpr std::size_t kCrc = sizeof(std::uint32_t);
  if (!is_index(content)) return failure(Code::kDataLoss, "not an index of Xoe");
  if (content.size() < kMagic.size() + kCrc) return failure(Code::kDataLoss, "truncated");
  ByteReader bytes(content.substr(0, content.size() - kCrc));
  if (load_little<std::uint32_t>(content.data() + content.size() - kCrc) != crc32c(content.substr(0, bytes.left())))
    return failure(Code::kDataLoss, "its CRC is wrong");
  bytes.raw(kMagic.size());
  if (const auto version = bytes.fixed<std::uint32_t>(); version != kVersion)
    return failure(Code::kUnsupported, "version {}; {} is known", version, kVersion);
  const auto compression = bytes.fixed<std::uint32_t>();
  const FileStamp made_of{bytes.fixed<std::uint64_t>(), bytes.fixed<std::int64_t>(), bytes.fixed<std::uint32_t>()};
  const IndexCounts counts{bytes.fixed<std::uint64_t>(), bytes.fixed<std::uint64_t>(), bytes.fixed<std::uint64_t>()};
  if (!bytes.ok() || compression > 2) return failure(Code::kDataLoss, "its header is damaged");
  if (made_of != stamp) return failure(Code::kInvalidArgument, "stale: the record file has changed since it was made");

  FileIndex index;
  index.compression = compression == 1   ? Compression::kGzip
                      : compression == 2 ? Compression::kZlib
                                         : Compression::kNone;
  if (!read_lost(bytes, counts.lost, index)) return failure(Code::kDataLoss, "its lost ranges do not fit");
  const auto end = read_extents(bytes, counts.records, index);
  if (!end || (index.compression == Compression::kNone && *end != stamp.bytes))
    return failure(Code::kDataLoss, "its records do not fit the file");
  if (!read_restarts(bytes, counts.restarts, stamp.bytes, index) || bytes.left() > 0)
    return failure(Code::kDataLoss, "its restart points do not fit");
  return index;
}

}  // namespace xoe::data

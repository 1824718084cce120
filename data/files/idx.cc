#include "data/files/idx.h"

#include <algorithm>
#include <optional>
#include <span>

#include "data/failure_in.h"
#include "data/files/foreign_bytes.h"
#include "data/files/inflate.h"

namespace xoe::data {
namespace {

constexpr std::uint8_t kByteItems = 0x08;  // the type of the items
constexpr std::size_t kMaxDimensions = 4;
constexpr std::uint64_t kMaxIdxBytes = std::uint64_t{8} << 30;
constexpr std::uint64_t kMaxInflatedBytes = std::uint64_t{2} << 30;  // of a compressed file

std::uint32_t load_big(std::string_view from) {
  std::uint32_t value = 0;
  for (const char byte : from.substr(0, 4)) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

// The product of the sizes; nullopt: too large.
std::optional<std::uint64_t> count_bytes(std::span<const std::uint32_t> sizes) {
  std::uint64_t bytes = 1;
  for (const std::uint32_t size : sizes) {
    if (size != 0 && bytes > kMaxIdxBytes / size) return std::nullopt;
    bytes *= size;
  }
  return bytes;
}

Result<std::vector<std::uint32_t>> read_sizes(ByteSource& source) {
  std::string header;
  XOE_TRY(append_bytes(source, 4, header));
  const auto type = static_cast<std::uint8_t>(header[2]);
  const auto dimensions = static_cast<std::uint8_t>(header[3]);
  if (header[0] != 0 || header[1] != 0) {
    (void)append_bytes(source, 8, header);  // tells most kinds
    const std::string_view kind = foreign_kind_of(header);
    return failure(Code::kDataLoss, "not an idx file{}{}", kind.empty() ? "" : ", but ", kind);
  }
  if (type != kByteItems) return failure(Code::kUnsupported, "items of type {:#04x}; only bytes (0x08) are read", type);
  if (dimensions == 0 || dimensions > kMaxDimensions)
    return failure(Code::kDataLoss, "{} dimensions; 1 to {} are possible", dimensions, kMaxDimensions);
  XOE_TRY(append_bytes(source, 4 * std::uint64_t{dimensions}, header));
  std::vector<std::uint32_t> sizes;
  for (std::size_t i = 0; i < dimensions; ++i) sizes.push_back(load_big(std::string_view(header).substr(4 + 4 * i)));
  return sizes;
}

}  // namespace

bool is_idx_name(std::string_view name) noexcept {
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  return (has("images") && has("idx3")) || (has("labels") && has("idx1"));
}

Result<IdxArray> IdxArray::open(const std::string& path) {
  IdxArray array;
  XOE_ASSIGN(OpenFile opened, OpenFile::open(path));
  array.file_ = std::make_shared<const OpenFile>(std::move(opened));
  char magic[2] = {};
  if (array.file_->bytes >= sizeof magic)
    if (auto got = array.file_->read_at(0, magic, sizeof magic); !got) return failure_in(path, got.error());
  const bool gzip = magic[0] == '\x1f' && magic[1] == '\x8b';
  const auto source = gzip ? inflate_source(array.file_, Compression::kGzip) : plain_source(array.file_);

  auto sizes = read_sizes(*source);
  if (!sizes) return failure_in(path, sizes.error());
  array.sizes_ = std::move(*sizes);
  const auto item = count_bytes(std::span(array.sizes_).subspan(1));
  const auto all = count_bytes(array.sizes_);
  if (!item || !all) return failure(Code::kDataLoss, "{}: its dimensions are too large", path);
  array.item_bytes_ = *item;
  array.start_ = 4 + 4 * array.sizes_.size();
  if (!gzip) {
    if (array.file_->bytes != array.start_ + *all)
      return failure(Code::kDataLoss, "{}: {} bytes, but its header says {}", path, array.file_->bytes,
                     array.start_ + *all);
    return array;
  }
  if (*all > kMaxInflatedBytes)
    return failure(Code::kUnsupported, "{}: {} bytes when decompressed, at most {} are kept in memory; decompress it",
                   path, *all, kMaxInflatedBytes);
  auto content = std::make_shared<std::string>();
  if (auto got = append_bytes(*source, *all, *content); !got) return failure_in(path, got.error());
  char beyond = 0;
  const auto end = source->read(&beyond, 1);
  if (!end) return failure_in(path, end.error());
  if (*end > 0) return failure(Code::kDataLoss, "{}: more bytes than its header says", path);
  array.content_ = std::move(content);
  return array;
}

Result<std::string_view> IdxArray::read_range(std::uint64_t from, std::size_t count, std::string& buffer) const {
  if (content_) return std::string_view(*content_).substr(from, count);
  buffer.resize(count);
  XOE_TRY(file_->read_at(start_ + from, buffer.data(), count));
  return buffer;
}

Result<std::string_view> IdxArray::read(std::int64_t item, std::string& buffer) const {
  return read_range(static_cast<std::uint64_t>(item) * item_bytes_, item_bytes_, buffer);
}

Result<std::string_view> IdxArray::read_all(std::string& buffer) const {
  auto bytes = read_range(0, item_bytes_ * sizes_[0], buffer);
  if (!bytes) return failure_in(path(), bytes.error());
  return bytes;
}

}  // namespace xoe::data

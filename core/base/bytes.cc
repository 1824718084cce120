#include "core/base/bytes.h"

namespace xoe {

void ByteWriter::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) fixed(static_cast<std::uint8_t>(value | 0x80));
  fixed(static_cast<std::uint8_t>(value));
}

void ByteWriter::signed_varint(std::int64_t value) {
  varint((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
}

void ByteReader::fail() noexcept {
  ok_ = false;
  rest_ = {};
}

std::string_view ByteReader::raw(std::size_t size) {
  if (size > rest_.size()) {
    fail();
    return {};
  }
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

std::uint64_t ByteReader::varint(std::uint64_t limit) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto next = fixed<std::uint8_t>();
    if (shift == 63 && next > 1) break;
    value |= std::uint64_t{next & 0x7FU} << shift;
    if (next >= 0x80) continue;
    if (value <= limit) return value;
    break;
  }
  fail();
  return 0;
}

std::int64_t ByteReader::signed_varint() {
  const std::uint64_t value = varint();
  return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

std::size_t ByteReader::varint_count(std::size_t item_bytes) {
  const std::uint64_t count = varint();
  if (count <= left() / item_bytes) return count;
  fail();
  return 0;
}

void FrameBuffer::append(std::string_view bytes) {
  buffer_.erase(0, std::exchange(read_, 0));
  buffer_.append(bytes);
}

std::optional<std::uint32_t> FrameBuffer::next_length() const {
  if (partial() < sizeof(std::uint32_t)) return std::nullopt;
  return load_little<std::uint32_t>(buffer_.data() + read_);
}

std::optional<std::string_view> FrameBuffer::next(std::uint32_t limit) {
  const auto length = next_length();
  if (!length || *length > limit || partial() - sizeof *length < *length) return std::nullopt;
  const auto body = std::string_view(buffer_).substr(read_ + sizeof *length, *length);
  read_ += sizeof *length + *length;
  return body;
}

}  // namespace xoe

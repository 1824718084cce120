// Encoding and decoding of messages and file headers. All integers are little-endian. A writer cannot fail; a reader
// checks every bound, so that it may be given bytes of unknown origin.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace xoe {

// The integer at `from`, which may be unaligned.
template <std::integral T>
T load_little(const void* from) noexcept {
  std::make_unsigned_t<T> value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, from, sizeof value);
  } else {
    const auto* const bytes = static_cast<const unsigned char*>(from);
    for (std::size_t i = 0; i < sizeof value; ++i) value |= static_cast<decltype(value)>(bytes[i]) << (8 * i);
  }
  return static_cast<T>(value);
}

template <std::integral T>
void append_little(std::string& to, T value) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (std::size_t i = 0; i < sizeof bits; ++i) to.push_back(static_cast<char>((bits >> (8 * i)) & 0xff));
}

class ByteWriter {
 public:
  template <std::integral T>
  void fixed(T value) {
    append_little(bytes_, value);
  }
  void varint(std::uint64_t value);        // LEB128: seven bits a byte, low ones first
  void signed_varint(std::int64_t value);  // zigzag, then varint()
  void raw(std::string_view bytes) { bytes_.append(bytes); }
  void raw(std::span<const std::byte> bytes) { raw({reinterpret_cast<const char*>(bytes.data()), bytes.size()}); }
  // The length as a `Length`, then the text itself.
  template <std::unsigned_integral Length>
  void text(std::string_view value) {
    fixed(static_cast<Length>(value.size()));
    raw(value);
  }
  void varint_text(std::string_view value) {
    varint(value.size());
    raw(value);
  }

  const std::string& bytes() const noexcept { return bytes_; }
  std::string take() && { return std::move(bytes_); }
  bool empty() const noexcept { return bytes_.empty(); }
  void clear() noexcept { bytes_.clear(); }

 private:
  std::string bytes_;
};

// The first value that is missing or out of bounds makes the reader fail for good; everything after it reads as zero
// or empty. Views point into the bytes that are read.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  explicit ByteReader(std::span<const std::byte> bytes)
      : rest_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}

  template <std::integral T>
  T fixed() {
    const std::string_view taken = raw(sizeof(T));
    return taken.empty() ? T{0} : load_little<T>(taken.data());
  }
  // Fails outside of [low, high], and returns `low` then.
  template <std::integral T>
  T fixed(T low, T high) {
    const T value = fixed<T>();
    if (ok_ && value >= low && value <= high) return value;
    fail();
    return low;
  }
  std::uint64_t varint(std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());  // fails beyond `limit`
  std::int64_t signed_varint();
  std::string_view raw(std::size_t size);
  template <std::unsigned_integral Length>
  std::string_view text() {
    return raw(fixed<Length>());
  }
  std::string_view varint_text(std::size_t limit) { return raw(varint(limit)); }
  // A count of items of at least `item_bytes` each: fails when the rest has no room for so many.
  std::size_t varint_count(std::size_t item_bytes);

  std::size_t left() const noexcept { return rest_.size(); }
  bool ok() const noexcept { return ok_; }
  bool more() const noexcept { return ok_ && !rest_.empty(); }
  bool at_end() const noexcept { return ok_ && rest_.empty(); }
  void fail() noexcept;

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// Cuts a stream of bytes into frames: a 32-bit length, then that many bytes of body.
class FrameBuffer {
 public:
  void append(std::string_view bytes);
  // The body of the next frame, valid until append() is called. nullopt: more bytes are needed, or next_length() is
  // beyond `limit`, after which the stream is of no use.
  std::optional<std::string_view> next(std::uint32_t limit);
  // The length that the next frame announces; nullopt while it has not arrived.
  std::optional<std::uint32_t> next_length() const;
  // Bytes of a frame that is not complete yet.
  std::size_t partial() const noexcept { return buffer_.size() - read_; }

 private:
  std::string buffer_;
  std::size_t read_ = 0;
};

}  // namespace xoe

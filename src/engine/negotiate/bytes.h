// Bytes of the messages between hosts (docs/formats/negotiation.md): written without failing, read without trusting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace xoe::engine {

class ByteWriter {
 public:
  void byte(std::uint8_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void number(std::uint64_t value);     // LEB128: seven bits a byte, low ones first
  void difference(std::int64_t value);  // zigzag, then number()
  void fixed32(std::uint32_t value);    // little-endian
  void fixed64(std::uint64_t value);
  void text(std::string_view value);  // number() of bytes, then these
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  // Ascending, each once: as runs or as a bitmap, whichever is shorter.
  void ids(std::span<const std::uint32_t> ids);

  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  bool empty() const noexcept { return bytes_.empty(); }
  void clear() noexcept { bytes_.clear(); }

 private:
  std::vector<std::byte> bytes_;
};

// The first thing that does not fit makes it fail for good; from then on everything reads as zero.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::uint8_t byte();
  std::uint64_t number();
  std::uint64_t number(std::uint64_t limit);  // fails beyond `limit`
  std::int64_t difference();
  std::uint32_t fixed32();
  std::uint64_t fixed64();
  std::string_view text(std::size_t limit);  // points into what is read
  // How many things follow that take `least` bytes each: never more than there is room for.
  std::size_t count(std::size_t least) { return number(rest_.size() / least); }
  // All below `limit`.
  std::vector<std::uint32_t> ids(std::uint32_t limit);

  bool ok() const noexcept { return ok_; }
  bool more() const noexcept { return ok_ && !rest_.empty(); }
  bool at_end() const noexcept { return ok_ && rest_.empty(); }
  void fail() noexcept;

 private:
  std::span<const std::byte> take(std::size_t size);
  void read_runs(std::vector<std::uint32_t>& ids, std::size_t count, std::uint32_t limit);
  void read_bitmap(std::vector<std::uint32_t>& ids, std::size_t count, std::uint32_t limit);

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

// A hash that is the same on every host and build.
class StableHash {
 public:
  void add(std::uint64_t value) noexcept;
  void add(std::string_view text) noexcept;
  std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

}  // namespace xoe::engine

// Encodes numbers and texts as a string of bytes for messages between hosts. Little endian; a number takes 64 bits, a
// text its length in 32 bits and its bytes, a list of texts its count and each text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xoe::remote {

void append_number(std::string& out, std::uint64_t number, std::size_t bytes);
// The number in the first `size` bytes.
std::uint64_t number_at(std::string_view bytes, std::size_t size);

class FieldWriter {
 public:
  void number(std::int64_t value) { append_number(bytes_, static_cast<std::uint64_t>(value), sizeof value); }
  void text(std::string_view value);
  void texts(std::span<const std::string> values);
  std::string take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After the first field that is missing or out of bounds, every further field is empty and good() is false.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T number(std::int64_t low, std::int64_t high) {
    return static_cast<T>(bounded(low, high));
  }
  std::string text();
  std::vector<std::string> texts();
  bool good() const noexcept { return good_; }
  bool empty() const noexcept { return bytes_.empty(); }

 private:
  std::int64_t bounded(std::int64_t low, std::int64_t high);
  bool has(std::size_t bytes);

  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace xoe::remote

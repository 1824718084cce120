// Numbers and texts one after the other in a string of bytes: the fields of what travels between hosts. Little endian;
// a number is 64 bits, a text 32 bits of length and its bytes, several texts their count and each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xoe::launch {

void append_number(std::string& out, std::uint64_t number, std::size_t bytes);
// Of the first `size` bytes.
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

// After the first field that is not there or out of bounds every further one is empty, and good() is false.
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

}  // namespace xoe::launch

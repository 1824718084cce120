#include "remote/fields.h"

namespace xoe::remote {

void append_number(std::string& out, std::uint64_t number, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(number >> (8 * i) & 0xff));
}

std::uint64_t number_at(std::string_view bytes, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < size; ++i) number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return number;
}

void FieldWriter::text(std::string_view value) {
  append_number(bytes_, value.size(), sizeof(std::uint32_t));
  bytes_.append(value);
}

void FieldWriter::texts(std::span<const std::string> values) {
  number(static_cast<std::int64_t>(values.size()));
  for (const std::string& value : values) text(value);
}

bool FieldReader::has(std::size_t bytes) {
  good_ = good_ && bytes_.size() >= bytes;
  if (!good_) bytes_ = {};
  return good_;
}

std::int64_t FieldReader::bounded(std::int64_t low, std::int64_t high) {
  if (!has(sizeof(std::int64_t))) return low;
  const auto number = static_cast<std::int64_t>(number_at(bytes_, sizeof(std::int64_t)));
  bytes_.remove_prefix(sizeof number);
  if (number >= low && number <= high) return number;
  good_ = false;
  return low;
}

std::string FieldReader::text() {
  if (!has(sizeof(std::uint32_t))) return {};
  const auto size = static_cast<std::size_t>(number_at(bytes_, sizeof(std::uint32_t)));
  bytes_.remove_prefix(sizeof(std::uint32_t));
  if (!has(size)) return {};
  std::string value(bytes_.substr(0, size));
  bytes_.remove_prefix(size);
  return value;
}

std::vector<std::string> FieldReader::texts() {
  std::vector<std::string> values;
  // Each text takes at least the bytes of its length, so no count makes this allocate more than was sent.
  for (auto left = bounded(0, static_cast<std::int64_t>(bytes_.size())); left > 0 && good_; --left)
    values.push_back(text());
  return values;
}

}  // namespace xoe::remote

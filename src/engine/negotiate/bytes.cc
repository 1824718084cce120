#include "engine/negotiate/bytes.h"

#include <bit>

namespace xoe::engine {
namespace {

constexpr std::uint32_t kBitmap = 1;

// Where a run of consecutive ids that begins at `first` ends.
std::size_t run_end(std::span<const std::uint32_t> ids, std::size_t first) {
  std::size_t end = first + 1;
  while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
  return end;
}

// number(2 * gap + long), and number(length - 2) of a long one.
void write_runs(ByteWriter& out, std::span<const std::uint32_t> ids) {
  std::uint64_t next = 0;
  for (std::size_t first = 0; first < ids.size();) {
    const std::size_t end = run_end(ids, first);
    const bool longer = end - first > 1;
    out.number((ids[first] - next) * 2 + (longer ? 1 : 0));
    if (longer) out.number(end - first - 2);
    next = std::uint64_t{ids[end - 1]} + 1;
    first = end;
  }
}

void write_bitmap(ByteWriter& out, std::span<const std::uint32_t> ids) {
  const std::uint32_t base = ids.front() / 8;
  std::vector<std::uint8_t> bits(ids.back() / 8 - base + 1);
  for (const std::uint32_t id : ids)
    bits[id / 8 - base] = static_cast<std::uint8_t>(bits[id / 8 - base] | (1U << (id % 8)));
  out.number(base);
  out.number(bits.size());
  out.raw(std::as_bytes(std::span(bits)));
}

}  // namespace

void ByteWriter::number(std::uint64_t value) {
  while (value >= 0x80) {
    byte(static_cast<std::uint8_t>(value | 0x80));
    value >>= 7;
  }
  byte(static_cast<std::uint8_t>(value));
}

void ByteWriter::difference(std::int64_t value) {
  number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
}

void ByteWriter::fixed32(std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) byte(static_cast<std::uint8_t>(value >> shift));
}

void ByteWriter::fixed64(std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) byte(static_cast<std::uint8_t>(value >> shift));
}

void ByteWriter::text(std::string_view value) {
  number(value.size());
  raw(std::as_bytes(std::span(value)));
}

void ByteWriter::ids(std::span<const std::uint32_t> ids) {
  if (ids.empty()) return number(0);
  ByteWriter runs;
  write_runs(runs, ids);
  if (runs.bytes().size() <= 4) {
    number(ids.size() * 2);
    return raw(runs.bytes());
  }
  ByteWriter bitmap;
  write_bitmap(bitmap, ids);
  const bool dense = bitmap.bytes().size() < runs.bytes().size();
  number(ids.size() * 2 + (dense ? kBitmap : 0));
  raw(dense ? bitmap.bytes() : runs.bytes());
}

void ByteReader::fail() noexcept {
  ok_ = false;
  rest_ = {};
}

std::span<const std::byte> ByteReader::take(std::size_t size) {
  if (size > rest_.size()) {
    fail();
    return {};
  }
  const auto taken = rest_.first(size);
  rest_ = rest_.subspan(size);
  return taken;
}

std::uint8_t ByteReader::byte() {
  const auto taken = take(1);
  return taken.empty() ? 0 : std::to_integer<std::uint8_t>(taken[0]);
}

std::uint64_t ByteReader::number() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint8_t next = byte();
    if (shift == 63 && next > 1) break;
    value |= std::uint64_t{next & 0x7FU} << shift;
    if (next < 0x80) return value;
  }
  fail();
  return 0;
}

std::uint64_t ByteReader::number(std::uint64_t limit) {
  const std::uint64_t value = number();
  if (value <= limit) return value;
  fail();
  return 0;
}

std::int64_t ByteReader::difference() {
  const std::uint64_t value = number();
  return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

std::uint32_t ByteReader::fixed32() {
  std::uint32_t value = 0;
  for (int shift = 0; shift < 32; shift += 8) value |= std::uint32_t{byte()} << shift;
  return value;
}

std::uint64_t ByteReader::fixed64() {
  const std::uint64_t low = fixed32();
  return low | std::uint64_t{fixed32()} << 32;
}

std::string_view ByteReader::text(std::size_t limit) {
  const auto taken = take(number(limit));
  return {reinterpret_cast<const char*>(taken.data()), taken.size()};
}

void ByteReader::read_runs(std::vector<std::uint32_t>& ids, std::size_t count, std::uint32_t limit) {
  std::uint64_t next = 0;
  while (ok_ && ids.size() < count) {
    const std::uint64_t head = number(std::uint64_t{limit} * 2);
    const std::uint64_t length = head % 2 == 0 ? 1 : number(limit) + 2;
    next += head / 2;
    if (length > count - ids.size() || next + length > limit) return fail();
    for (std::uint64_t i = 0; i < length; ++i) ids.push_back(static_cast<std::uint32_t>(next++));
  }
}

void ByteReader::read_bitmap(std::vector<std::uint32_t>& ids, std::size_t count, std::uint32_t limit) {
  const std::uint64_t base = number(limit);
  const auto bits = take(number(limit / 8 + 1));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    for (unsigned left = std::to_integer<unsigned>(bits[i]); left != 0; left &= left - 1) {
      const std::uint64_t id = (base + i) * 8 + static_cast<unsigned>(std::countr_zero(left));
      if (id >= limit || ids.size() == count) return fail();
      ids.push_back(static_cast<std::uint32_t>(id));
    }
  }
  if (ids.size() != count) fail();
}

std::vector<std::uint32_t> ByteReader::ids(std::uint32_t limit) {
  const std::uint64_t head = number(std::uint64_t{limit} * 2 + 1);
  std::vector<std::uint32_t> ids;
  ids.reserve(head / 2);
  if (head % 2 == kBitmap)
    read_bitmap(ids, head / 2, limit);
  else
    read_runs(ids, head / 2, limit);
  if (!ok_) ids.clear();
  return ids;
}

void StableHash::add(std::uint64_t value) noexcept {
  // The finaliser of SplitMix64.
  state_ = (state_ ^ value) * 0xbf58476d1ce4e5b9 + 0x9e3779b97f4a7c15;
  state_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9;
  state_ = (state_ ^ (state_ >> 27)) * 0x94d049bb133111eb;
  state_ ^= state_ >> 31;
}

void StableHash::add(std::string_view text) noexcept {
  add(text.size());
  for (const char c : text) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  add(std::uint64_t{0});
}

}  // namespace xoe::engine

#include "engine/negotiate/id_set.h"

#include <bit>

namespace xoe::engine {
namespace {

constexpr std::uint32_t kBitmap = 1;

// The end of the run of consecutive ids that begins at `first`.
std::size_t run_end(std::span<const std::uint32_t> ids, std::size_t first) {
  std::size_t end = first + 1;
  while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
  return end;
}

void write_runs(ByteWriter& out, std::span<const std::uint32_t> ids) {
  std::uint64_t next = 0;
  for (std::size_t first = 0; first < ids.size();) {
    const std::size_t end = run_end(ids, first);
    const bool longer = end - first > 1;
    out.varint((ids[first] - next) * 2 + (longer ? 1 : 0));
    if (longer) out.varint(end - first - 2);
    next = std::uint64_t{ids[end - 1]} + 1;
    first = end;
  }
}

void write_bitmap(ByteWriter& out, std::span<const std::uint32_t> ids) {
  const std::uint32_t base = ids.front() / 8;
  std::vector<std::uint8_t> bits(ids.back() / 8 - base + 1);
  for (const std::uint32_t id : ids)
    bits[id / 8 - base] = static_cast<std::uint8_t>(bits[id / 8 - base] | (1U << (id % 8)));
  out.varint(base);
  out.varint(bits.size());
  out.raw(std::as_bytes(std::span(bits)));
}

void read_runs(ByteReader& in, std::vector<std::uint32_t>& ids, std::size_t count, std::uint32_t limit) {
  std::uint64_t next = 0;
  while (in.ok() && ids.size() < count) {
    const std::uint64_t head = in.varint(std::uint64_t{limit} * 2);
    const std::uint64_t length = head % 2 == 0 ? 1 : in.varint(limit) + 2;
    next += head / 2;
    if (length > count - ids.size() || next + length > limit) return in.fail();
    for (std::uint64_t i = 0; i < length; ++i) ids.push_back(static_cast<std::uint32_t>(next++));
  }
}

void read_bitmap(ByteReader& in, std::vector<std::uint32_t>& ids, std::size_t count, std::uint32_t limit) {
  const std::uint64_t base = in.varint(limit);
  const std::string_view bits = in.varint_text(limit / 8 + 1);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    for (unsigned left = static_cast<unsigned char>(bits[i]); left != 0; left &= left - 1) {
      const std::uint64_t id = (base + i) * 8 + static_cast<unsigned>(std::countr_zero(left));
      if (id >= limit || ids.size() == count) return in.fail();
      ids.push_back(static_cast<std::uint32_t>(id));
    }
  }
  if (ids.size() != count) in.fail();
}

}  // namespace

void write_ids(ByteWriter& out, std::span<const std::uint32_t> ids) {
  if (ids.empty()) return out.varint(0);
  ByteWriter runs;
  write_runs(runs, ids);
  ByteWriter bitmap;
  if (runs.bytes().size() > 4) write_bitmap(bitmap, ids);
  const bool dense = !bitmap.empty() && bitmap.bytes().size() < runs.bytes().size();
  out.varint(ids.size() * 2 + (dense ? kBitmap : 0));
  out.raw(dense ? bitmap.bytes() : runs.bytes());
}

std::vector<std::uint32_t> read_ids(ByteReader& in, std::uint32_t limit) {
  const std::uint64_t head = in.varint(std::uint64_t{limit} * 2 + 1);
  std::vector<std::uint32_t> ids;
  ids.reserve(head / 2);
  if (head % 2 == kBitmap)
    read_bitmap(in, ids, head / 2, limit);
  else
    read_runs(in, ids, head / 2, limit);
  if (!in.ok()) ids.clear();
  return ids;
}

}  // namespace xoe::engine

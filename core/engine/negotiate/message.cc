#include "core/engine/negotiate/message.h"

#include <bit>
#include <utility>

#include "core/base/error.h"

namespace xoe::engine {
namespace {

enum Kind : std::uint8_t { kReport = 1, kDecisions = 2 };
enum Section : std::uint8_t { kKnown = 1, kNamed = 2, kErrors = 4, kJoined = 8 };
enum Tag : std::uint8_t { kDecision = 1, kEviction = 2 };

std::vector<std::byte> to_bytes(std::string_view text) {
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

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

// ids: ascending, without duplicates. Written as runs or as a bitmap, whichever is shorter.
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

// Empty, and `in` has failed, unless all ids are below `limit`.
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

// Number 0 and the name, or the id + 1.
void write_key(ByteWriter& out, const NameKey& key) {
  out.varint(key.id ? std::uint64_t{*key.id} + 1 : 0);
  if (!key.id) out.varint_text(key.name);
}

NameKey read_key(ByteReader& in, std::uint32_t ids) {
  NameKey key;
  const std::uint64_t head = in.varint(ids);
  if (head > 0)
    key.id = static_cast<std::uint32_t>(head - 1);
  else
    key.name = in.varint_text(kMaxNameBytes);
  return key;
}

void write_other(ByteWriter& out, const Report::Other& other) {
  write_key(out, other.key);
  out.varint(other.values.size());
  for (const HostValue& value : other.values) {
    out.varint(std::uint64_t{value.host} * 2 + (value.failed ? 1 : 0));
    out.fixed(value.signature);
    out.varint_text(value.text);
  }
}

Report::Other read_other(ByteReader& in, std::uint32_t ids) {
  Report::Other other{.key = read_key(in, ids), .values = {}};
  const std::uint64_t count = in.varint(kMaxValues);
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    HostValue value;
    const std::uint64_t head = in.varint(std::uint64_t{kMaxHosts} * 2);
    value.host = static_cast<std::uint32_t>(head / 2);
    value.failed = head % 2 != 0;
    value.signature = in.fixed<std::uint64_t>();
    value.text = in.varint_text(kMaxTextBytes);
    other.values.push_back(std::move(value));
  }
  if (other.values.empty()) in.fail();
  return other;
}

std::uint8_t sections(bool known, bool named, bool errors, bool joined) {
  return static_cast<std::uint8_t>((known ? kKnown : 0) | (named ? kNamed : 0) | (errors ? kErrors : 0) |
                                   (joined ? kJoined : 0));
}

// An error has no signature.
void write_named(ByteWriter& out, const std::vector<DecisionRecord::Named>& list, bool with_signature) {
  out.varint(list.size());
  for (const DecisionRecord::Named& named : list) {
    write_key(out, named.key);
    if (with_signature) out.fixed(named.signature);
    out.varint_text(named.text);
  }
}

std::vector<DecisionRecord::Named> read_named(ByteReader& in, std::uint32_t ids, bool with_signature) {
  std::vector<DecisionRecord::Named> list;
  const std::size_t count = in.varint_count(with_signature ? 10 : 2);
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    DecisionRecord::Named named{.key = read_key(in, ids), .signature = 0, .text = {}};
    if (with_signature) named.signature = in.fixed<std::uint64_t>();
    named.text = in.varint_text(with_signature ? kMaxTextBytes : kMaxErrorBytes);
    list.push_back(std::move(named));
  }
  return list;
}

void write(ByteWriter& out, const DecisionRecord& record) {
  out.fixed<std::uint8_t>(kDecision);
  out.varint(record.sequence);
  out.varint(record.knobs);
  out.fixed(sections(!record.known.empty(), !record.named.empty(), !record.errors.empty(), record.joined.has_value()));
  if (!record.known.empty()) write_ids(out, record.known);
  if (!record.named.empty()) write_named(out, record.named, true);
  if (!record.errors.empty()) write_named(out, record.errors, false);
  if (record.joined) out.varint(static_cast<std::uint64_t>(*record.joined));
}

void write(ByteWriter& out, const EvictionRecord& record) {
  out.fixed<std::uint8_t>(kEviction);
  out.varint(record.epoch);
  write_ids(out, record.ids);
}

DecisionRecord read_decision(ByteReader& in, std::uint32_t ids) {
  DecisionRecord record;
  record.sequence = in.varint();
  record.knobs = in.varint();
  const auto present = in.fixed<std::uint8_t>(0, kKnown | kNamed | kErrors | kJoined);
  if (present & kKnown) record.known = read_ids(in, ids);
  if (present & kNamed) record.named = read_named(in, ids, true);
  if (present & kErrors) record.errors = read_named(in, ids, false);
  if (present & kJoined) record.joined = static_cast<int>(in.varint(0x7FFFFFFF));
  return record;
}

EvictionRecord read_eviction(ByteReader& in, std::uint32_t ids) {
  const std::uint64_t epoch = in.varint();
  return {.epoch = epoch, .ids = read_ids(in, ids)};
}

tl::unexpected<Error> malformed_message(std::string_view kind) {
  return failure(Code::kInternal, "negotiation between hosts: malformed {}", kind);
}

}  // namespace

std::vector<std::byte> encode(const Report& report) {
  ByteWriter out;
  out.fixed<std::uint8_t>(kReport);
  out.varint(report.epoch);
  out.varint(report.applied);
  out.fixed(sections(!report.known.empty(), !report.others.empty(), false, report.joined.has_value()));
  if (!report.known.empty()) write_ids(out, report.known);
  if (!report.others.empty()) {
    out.varint(report.others.size());
    for (const Report::Other& other : report.others) write_other(out, other);
  }
  if (report.joined) out.varint(static_cast<std::uint64_t>(*report.joined));
  return to_bytes(out.bytes());
}

Result<Report> decode_report(std::span<const std::byte> bytes, std::uint32_t ids) {
  ByteReader in(bytes);
  Report report;
  in.fixed<std::uint8_t>(kReport, kReport);
  report.epoch = in.varint();
  report.applied = in.varint();
  const auto present = in.fixed<std::uint8_t>();
  if (present & ~(kKnown | kNamed | kJoined)) in.fail();
  if (present & kKnown) report.known = read_ids(in, ids);
  if (present & kNamed) {
    const std::size_t count = in.varint_count(11);
    for (std::size_t i = 0; i < count && in.ok(); ++i) report.others.push_back(read_other(in, ids));
  }
  if (present & kJoined) report.joined = static_cast<int>(in.varint(0x7FFFFFFF));
  if (!in.at_end()) return malformed_message("report");
  return report;
}

void append(ByteWriter& out, const DownRecord& record) {
  std::visit([&](const auto& one) { write(out, one); }, record);
}

std::vector<std::byte> encode_down(std::string_view records) {
  ByteWriter out;
  out.fixed<std::uint8_t>(kDecisions);
  out.raw(records);
  return to_bytes(out.bytes());
}

Result<ByteReader> decode_down(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  in.fixed<std::uint8_t>(kDecisions, kDecisions);
  if (!in.more()) return malformed_message("decision");
  return in;
}

Result<DownRecord> next_record(ByteReader& records, std::uint32_t ids) {
  DownRecord record;
  if (records.fixed<std::uint8_t>(kDecision, kEviction) == kDecision)
    record = read_decision(records, ids);
  else
    record = read_eviction(records, ids);
  if (!records.ok()) return malformed_message("decision");
  return record;
}

}  // namespace xoe::engine

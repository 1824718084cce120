#include "engine/negotiate/message.h"

#include <utility>

namespace xoe::engine {
namespace {

enum Kind : std::uint8_t { kReports = 1, kProgress = 2, kLeave = 3, kDecisions = 4 };
enum Section : std::uint8_t { kKnown = 1, kNamed = 2, kErrors = 4, kJoined = 8 };
enum Tag : std::uint8_t { kGroup = 1, kUnits = 2, kPlan = 3, kBreak = 4, kEvict = 5 };

// Number 0 and the name, or the id + 1.
void put_key(ByteWriter& out, const NameKey& key) {
  out.number(key.id ? std::uint64_t{*key.id} + 1 : 0);
  if (!key.id) out.text(key.name);
}

NameKey read_key(ByteReader& in, std::uint32_t ids) {
  NameKey key;
  const std::uint64_t head = in.number(ids);
  if (head > 0)
    key.id = static_cast<std::uint32_t>(head - 1);
  else
    key.name = in.text(kMaxNameBytes);
  return key;
}

void put_item(ByteWriter& out, const Reports::Item& item) {
  put_key(out, item.key);
  out.number(item.values.size());
  for (const HostValue& value : item.values) {
    out.number(std::uint64_t{value.host} * 2 + (value.failed ? 1 : 0));
    out.fixed64(value.signature);
    out.text(value.text);
  }
}

Reports::Item read_item(ByteReader& in, std::uint32_t ids) {
  Reports::Item item{.key = read_key(in, ids), .values = {}};
  const std::uint64_t count = in.number(kMaxValues);
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    HostValue value;
    const std::uint64_t head = in.number(std::uint64_t{kMaxHosts} * 2);
    value.host = static_cast<std::uint32_t>(head / 2);
    value.failed = head % 2 != 0;
    value.signature = in.fixed64();
    value.text = in.text(kMaxTextBytes);
    item.values.push_back(std::move(value));
  }
  if (item.values.empty()) in.fail();
  return item;
}

std::uint8_t sections(bool known, bool named, bool errors, bool joined) {
  return static_cast<std::uint8_t>((known ? kKnown : 0) | (named ? kNamed : 0) | (errors ? kErrors : 0) |
                                   (joined ? kJoined : 0));
}

void put(ByteWriter& out, const Reports& message) {
  out.byte(kReports);
  out.number(message.epoch);
  out.number(message.applied);
  out.byte(sections(!message.known.empty(), !message.items.empty(), false, message.joined.has_value()));
  if (!message.known.empty()) out.ids(message.known);
  if (!message.items.empty()) {
    out.number(message.items.size());
    for (const Reports::Item& item : message.items) put_item(out, item);
  }
  if (message.joined) out.number(static_cast<std::uint64_t>(*message.joined));
}

void put(ByteWriter& out, const Progress& message) {
  out.byte(kProgress);
  out.number(message.epoch);
  out.number(message.units);
  out.fixed32(message.check);
}

void put(ByteWriter& out, const Leave& message) {
  out.byte(kLeave);
  out.number(message.epoch);
}

Reports read_reports(ByteReader& in, std::uint32_t ids) {
  Reports message;
  message.epoch = in.number();
  message.applied = in.number();
  const std::uint8_t present = in.byte();
  if (present & ~(kKnown | kNamed | kJoined)) in.fail();
  if (present & kKnown) message.known = in.ids(ids);
  if (present & kNamed) {
    const std::size_t count = in.count(11);
    for (std::size_t i = 0; i < count && in.ok(); ++i) message.items.push_back(read_item(in, ids));
  }
  if (present & kJoined) message.joined = static_cast<int>(in.number(0x7FFFFFFF));
  return message;
}

// An error has no signature.
void put_named(ByteWriter& out, const std::vector<GroupRecord::Named>& list, bool signed_ones) {
  out.number(list.size());
  for (const GroupRecord::Named& named : list) {
    put_key(out, named.key);
    if (signed_ones) out.fixed64(named.signature);
    out.text(named.text);
  }
}

std::vector<GroupRecord::Named> read_named(ByteReader& in, std::uint32_t ids, bool signed_ones) {
  std::vector<GroupRecord::Named> list;
  const std::size_t count = in.count(signed_ones ? 10 : 2);
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    GroupRecord::Named named{.key = read_key(in, ids), .signature = 0, .text = {}};
    if (signed_ones) named.signature = in.fixed64();
    named.text = in.text(signed_ones ? kMaxTextBytes : kMaxErrorBytes);
    list.push_back(std::move(named));
  }
  return list;
}

void put(ByteWriter& out, const GroupRecord& record) {
  out.byte(kGroup);
  out.number(record.sequence);
  out.number(record.knobs);
  out.byte(sections(!record.known.empty(), !record.settled.empty(), !record.errors.empty(), record.joined.has_value()));
  if (!record.known.empty()) out.ids(record.known);
  if (!record.settled.empty()) put_named(out, record.settled, true);
  if (!record.errors.empty()) put_named(out, record.errors, false);
  if (record.joined) out.number(static_cast<std::uint64_t>(*record.joined));
}

void put(ByteWriter& out, const UnitsRecord& record) {
  out.byte(kUnits);
  out.byte(record.knobs ? 1 : 0);
  out.number(record.units);
  out.fixed32(record.check);
  if (record.knobs) out.number(*record.knobs);
}

void put(ByteWriter& out, const PlanRecord& record) {
  out.byte(kPlan);
  out.number(record.epoch);
  out.fixed64(record.hash);
  out.number(record.units.size());
  std::int64_t next = 0;
  for (const auto& unit : record.units) {
    out.number(unit.size());
    for (const std::uint32_t id : unit) {
      out.difference(std::int64_t{id} - next);
      next = std::int64_t{id} + 1;
    }
  }
}

void put(ByteWriter& out, const BreakRecord& record) {
  out.byte(kBreak);
  out.number(record.epoch);
}

void put(ByteWriter& out, const EvictRecord& record) {
  out.byte(kEvict);
  out.number(record.epoch);
  out.ids(record.ids);
}

GroupRecord read_group(ByteReader& in, std::uint32_t ids) {
  GroupRecord record;
  record.sequence = in.number();
  record.knobs = in.number();
  const std::uint8_t present = in.byte();
  if (present & ~(kKnown | kNamed | kErrors | kJoined)) in.fail();
  if (present & kKnown) record.known = in.ids(ids);
  if (present & kNamed) record.settled = read_named(in, ids, true);
  if (present & kErrors) record.errors = read_named(in, ids, false);
  if (present & kJoined) record.joined = static_cast<int>(in.number(0x7FFFFFFF));
  return record;
}

UnitsRecord read_units(ByteReader& in) {
  UnitsRecord record;
  const std::uint8_t flags = in.byte();
  if (flags > 1) in.fail();
  record.units = in.number();
  record.check = in.fixed32();
  if (flags == 1) record.knobs = in.number();
  return record;
}

PlanRecord read_plan(ByteReader& in, std::uint32_t ids) {
  PlanRecord record;
  record.epoch = in.number();
  record.hash = in.fixed64();
  const std::size_t units = in.count(2);
  std::int64_t next = 0;
  for (std::size_t i = 0; i < units && in.ok(); ++i) {
    auto& unit = record.units.emplace_back();
    const std::size_t count = in.count(1);
    if (count == 0) in.fail();
    for (std::size_t k = 0; k < count && in.ok(); ++k) {
      const std::int64_t step = in.difference();
      if (step < -std::int64_t{ids} || step > std::int64_t{ids}) in.fail();
      next = in.ok() ? next + step : 0;
      if (next < 0 || next >= std::int64_t{ids}) in.fail();
      unit.push_back(static_cast<std::uint32_t>(next++));
    }
  }
  if (record.units.empty()) in.fail();
  return record;
}

EvictRecord read_evict(ByteReader& in, std::uint32_t ids) {
  EvictRecord record;
  record.epoch = in.number();
  record.ids = in.ids(ids);
  return record;
}

DownRecord read_record(ByteReader& in, std::uint32_t ids) {
  switch (in.byte()) {
    case kGroup: return read_group(in, ids);
    case kUnits: return read_units(in);
    case kPlan: return read_plan(in, ids);
    case kBreak: return BreakRecord{.epoch = in.number()};
    case kEvict: return read_evict(in, ids);
    default: in.fail(); return BreakRecord{};
  }
}

tl::unexpected<Error> malformed(std::string_view what) {
  return failure(Code::kInternal, "negotiation between hosts: malformed " + std::string(what));
}

}  // namespace

std::vector<std::byte> encode(const UpMessage& message) {
  ByteWriter out;
  std::visit([&](const auto& one) { put(out, one); }, message);
  return out.bytes();
}

void append(ByteWriter& out, const DownRecord& record) {
  std::visit([&](const auto& one) { put(out, one); }, record);
}

std::vector<std::byte> encode_down(std::span<const std::byte> records) {
  std::vector<std::byte> bytes;
  bytes.reserve(records.size() + 1);
  bytes.push_back(std::byte{kDecisions});
  bytes.insert(bytes.end(), records.begin(), records.end());
  return bytes;
}

Result<UpMessage> decode_up(std::span<const std::byte> bytes, std::uint32_t ids) {
  ByteReader in(bytes);
  UpMessage message;
  switch (in.byte()) {
    case kReports: message = read_reports(in, ids); break;
    case kProgress: {
      const std::uint64_t epoch = in.number();
      const std::uint64_t units = in.number();
      message = Progress{.epoch = epoch, .units = units, .check = in.fixed32()};
      break;
    }
    case kLeave: message = Leave{.epoch = in.number()}; break;
    default: in.fail();
  }
  if (!in.at_end()) return malformed("report");
  return message;
}

Result<DownReader> DownReader::open(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  if (in.byte() != kDecisions || !in.more()) return malformed("decision");
  return DownReader(in);
}

Result<DownRecord> DownReader::next(std::uint32_t ids) {
  DownRecord record = read_record(in_, ids);
  if (!in_.ok()) return malformed("decision");
  return record;
}

}  // namespace xoe::engine

// Messages between coordinators (docs/formats/negotiation.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "xoe/status.h"

namespace xoe::engine {

inline constexpr std::size_t kMaxNameBytes = 2048;
inline constexpr std::size_t kMaxTextBytes = std::size_t{16} << 10;
inline constexpr std::size_t kMaxErrorBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxValues = 64;  // distinct values that are reported for one tensor
inline constexpr std::uint32_t kMaxHosts = 1U << 24;

// The value that one host, and possibly others, submitted for a tensor.
struct HostValue {
  std::uint64_t signature = 0;
  bool failed = false;  // the host's own ranks disagree; the text has all their values
  std::uint32_t host = 0;
  std::string text;
};

// A tensor by its id or, where it has none, by its name.
struct NameKey {
  std::optional<std::uint32_t> id;
  std::string name;
};

// From a host to its parent: tensors that have become ready in the whole subtree of the sender.
struct Report {
  struct Other {
    NameKey key;
    std::vector<HostValue> values;
  };
  std::uint64_t epoch = 0;
  std::uint64_t applied = 0;         // decisions that the sender had applied
  std::vector<std::uint32_t> known;  // ready with the signature agreed upon; ascending
  std::vector<Other> others;         // ready with other values
  std::optional<int> joined;         // set: the whole subtree has joined, this rank last
};

// From a host to its children: one decision.
struct DecisionRecord {
  struct Named {
    NameKey key;
    std::uint64_t signature = 0;
    std::string text;  // the description, or the error
  };
  std::uint64_t sequence = 0;
  std::uint64_t knobs = 0;
  std::vector<std::uint32_t> known;  // with the signature agreed upon before; ascending
  std::vector<Named> named;          // new names, and names with a new signature
  std::vector<Named> errors;
  std::optional<int> joined;
};

// From a host to its children: names lose their ids, and a new epoch begins.
struct EvictionRecord {
  std::uint64_t epoch = 0;
  std::vector<std::uint32_t> ids;
};

using DownRecord = std::variant<DecisionRecord, EvictionRecord>;

std::vector<std::byte> encode(const Report& report);
// Appends to the records of a message downwards.
void append(ByteWriter& out, const DownRecord& record);
std::vector<std::byte> encode_down(std::string_view records);

// The decoders return `internal` for anything that the functions above would not write, and for ids that are not below
// `ids`.
Result<Report> decode_report(std::span<const std::byte> bytes, std::uint32_t ids);
// The records of a message downwards, read with next_record() one by one: each may add ids that the next one uses.
Result<ByteReader> decode_down(std::span<const std::byte> bytes);
Result<DownRecord> next_record(ByteReader& records, std::uint32_t ids);
// The same records, to be passed on.
inline std::span<const std::byte> records_of(std::span<const std::byte> bytes) { return bytes.subspan(1); }

}  // namespace xoe::engine

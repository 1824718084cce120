// What hosts tell each other to agree on an order (docs/formats/negotiation.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/negotiate/bytes.h"
#include "xoe/status.h"

namespace xoe::engine {

inline constexpr std::size_t kMaxNameBytes = 2048;
inline constexpr std::size_t kMaxTextBytes = std::size_t{16} << 10;
inline constexpr std::size_t kMaxErrorBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxValues = 64;  // distinct ones that are told of one tensor
inline constexpr std::uint32_t kMaxHosts = 1U << 24;

// What one host, and maybe others, gave for a tensor.
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

// Upwards: what has become ready in the whole subtree of the sender.
struct Reports {
  struct Item {
    NameKey key;
    std::vector<HostValue> values;
  };
  std::uint64_t epoch = 0;
  std::uint64_t applied = 0;         // decisions that the sender had seen
  std::vector<std::uint32_t> known;  // with the signature agreed upon; ascending
  std::vector<Item> items;           // with others
  std::optional<int> joined;         // the whole subtree has; the rank that did last
};

// Upwards, in replay: how many units of the plan are ready in the whole subtree, since the plan began.
struct Progress {
  std::uint64_t epoch = 0;
  std::uint64_t units = 0;
  std::uint32_t check = 0;
};

// Upwards, in replay: somebody below does not follow the plan.
struct Leave {
  std::uint64_t epoch = 0;
};

using UpMessage = std::variant<Reports, Progress, Leave>;

// Downwards. Decided one by one.
struct GroupRecord {
  struct Named {
    NameKey key;
    std::uint64_t signature = 0;
    std::string text;  // of an error: what is wrong
  };
  std::uint64_t sequence = 0;
  std::uint64_t knobs = 0;
  std::vector<std::uint32_t> known;  // ascending
  std::vector<Named> settled;        // new, or with a new signature
  std::vector<Named> errors;
  std::optional<int> joined;
};

// Decided in replay: all units up to this count.
struct UnitsRecord {
  std::uint64_t units = 0;
  std::uint32_t check = 0;
  std::optional<std::uint64_t> knobs;  // absent: as last time
};

// From here on follow a plan.
struct PlanRecord {
  std::uint64_t epoch = 0;  // the new one
  std::uint64_t hash = 0;
  std::vector<std::vector<std::uint32_t>> units;
};

struct BreakRecord {
  std::uint64_t epoch = 0;
};

struct EvictRecord {
  std::uint64_t epoch = 0;
  std::vector<std::uint32_t> ids;
};

using DownRecord = std::variant<GroupRecord, UnitsRecord, PlanRecord, BreakRecord, EvictRecord>;

std::vector<std::byte> encode(const UpMessage& message);
// Appends to the records of a message downwards.
void append(ByteWriter& out, const DownRecord& record);
std::vector<std::byte> encode_down(std::span<const std::byte> records);

// Both give `internal` for anything that the functions above would not write, and for ids that are not below `ids`.
Result<UpMessage> decode_up(std::span<const std::byte> bytes, std::uint32_t ids);

// One record after the other, since each may add ids that the next one uses.
class DownReader {
 public:
  // `internal` for a message that does not go downwards.
  static Result<DownReader> open(std::span<const std::byte> bytes);
  bool more() const noexcept { return in_.more(); }
  Result<DownRecord> next(std::uint32_t ids);

 private:
  explicit DownReader(ByteReader in) : in_(in) {}
  ByteReader in_;
};
// The records of a message that DownReader has read.
inline std::span<const std::byte> records_of(std::span<const std::byte> bytes) { return bytes.subspan(1); }

}  // namespace xoe::engine

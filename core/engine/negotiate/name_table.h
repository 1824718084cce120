// The names that hosts agree on, and what one host knows about each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/engine/negotiate/message.h"

namespace xoe::engine {

// A name and the description that belongs to the signature agreed upon. Shared with decisions, which may outlive the
// entry.
struct TensorLabel {
  std::string name;
  std::string text;
};

// One name. The members after the empty line last for one submission.
struct NameEntry {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  enum class Stage : std::uint8_t { kGathering, kComplete, kReported };

  std::shared_ptr<const TensorLabel> label;
  std::uint64_t signature = 0;
  std::uint64_t decided_at = 0;  // 1 + the sequence number of the last decision about this name; 0: none
  std::uint32_t id = kNone;
  bool agreed = false;  // `signature` is agreed upon; only with an id

  bool local = false;   // ready on this host
  bool failed = false;  // this host's ranks disagree
  Stage stage = Stage::kGathering;
  std::uint32_t active = kNone;  // index in NameTable::active()
  std::uint32_t arrived = 0;     // children in whose whole subtree it is ready, a bit for each
  std::uint32_t differing = 0;   // those of them that reported values
  std::uint64_t own_signature = 0;
  std::string own_text;           // empty: as agreed upon
  std::vector<HostValue> values;  // reported by children

  const std::string& name() const noexcept { return label->name; }
  const std::string& text() const noexcept { return label->text; }
  bool known() const noexcept { return id != kNone; }
  bool as_agreed() const noexcept { return agreed && !failed && own_signature == signature; }
  bool undecided() const noexcept { return local || arrived != 0; }
};

class NameTable {
 public:
  // Null for a name without an entry.
  NameEntry* find(std::string_view name);
  NameEntry& obtain(std::string_view name);
  // Null for an id that no name has.
  NameEntry* by_id(std::uint32_t id) { return id < ids_.size() ? ids_[id] : nullptr; }
  // By id or by name; makes an entry for a new name. Null for an unknown id.
  NameEntry* resolve(const NameKey& key);

  // Assigns the lowest free id, the same one on every host.
  void assign(NameEntry& entry);
  // Takes the id away; removes the entry unless a submission of it is undecided.
  void evict(NameEntry& entry);
  // The `count` names that were decided longest ago; ascending ids.
  std::vector<std::uint32_t> oldest(std::size_t count) const;

  void activate(NameEntry& entry);
  // Clears what lasts for one submission. `entry` may be gone afterwards.
  void reset(NameEntry& entry);
  // Entries with an undecided submission.
  const std::vector<NameEntry*>& active() const noexcept { return active_; }

  std::size_t known() const noexcept { return ids_.size() - free_.size(); }
  std::uint32_t id_limit() const noexcept { return static_cast<std::uint32_t>(ids_.size()); }

 private:
  void drop_if_idle(NameEntry& entry);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  std::unordered_map<std::string, NameEntry, Hash, std::equal_to<>> entries_;
  std::vector<NameEntry*> ids_;
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> free_;
  std::vector<NameEntry*> active_;
};

// The value that this host submitted. REQUIRES: entry.local
HostValue own_value(const NameEntry& entry, int host);
// Adds a value unless an equal one is there; of equal values the one of the lowest host stays.
void add_value(std::vector<HostValue>& values, HostValue value);
// "host 0: allreduce(float32, sum, [3]); host 2: ...", in the order of hosts
std::string describe(std::vector<HostValue> values);

}  // namespace xoe::engine

// A plan that all hosts follow, and how far this one has come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/negotiate/message.h"
#include "engine/negotiate/name_table.h"

namespace xoe::engine {

// Units of ids, over and over. Counts of units and positions go on rising from one round of the plan to the next.
class Replay {
 public:
  // `internal` when `record` names ids that `table` has not, or knows other names or signatures by them.
  static Result<Replay> open(const PlanRecord& record, NameTable& table);
  // Of names and signatures, so that two hosts that mean different tensors find out.
  static std::uint64_t hash_of(const PlanRecord& record, NameTable& table);

  // May this entry, just ready with the signature agreed upon, come now? Not if the plan has not got it, or not in this
  // round any more while something else is missing in it.
  bool expects(const NameEntry& entry) const;
  // Does the plan have it at all?
  bool holds(const NameEntry& entry) const;
  // Counts what is ready at this host.
  void advance(NameTable& table);
  // The ids from the last decided unit up to this count, which then are decided. REQUIRES: units <= ready()
  std::vector<std::uint32_t> decide(std::uint64_t units);

  std::uint64_t ready() const noexcept { return ready_; }               // units, at this host
  std::uint64_t decided() const noexcept { return decided_; }           // units
  std::uint64_t followed() const noexcept { return end_of(decided_); }  // ids
  std::size_t units() const noexcept { return ends_.size(); }
  std::size_t length() const noexcept { return ids_.size(); }
  // The unit in which an entry that is not decided is awaited.
  std::uint64_t unit_of(const NameEntry& entry) const;
  std::uint32_t check(std::uint64_t units, std::uint64_t sequence) const;

 private:
  std::uint64_t end_of(std::uint64_t units) const;
  // The first place of the entry that is not decided. REQUIRES: holds(entry)
  std::uint64_t place_of(const NameEntry& entry) const;

  std::vector<std::uint32_t> ids_;
  std::vector<std::size_t> ends_;                                // of units
  std::vector<std::pair<std::uint32_t, std::uint32_t>> places_;  // id, where in ids_; sorted
  std::uint64_t hash_ = 0;
  std::uint64_t next_ = 0;  // position that is not ready here
  std::uint64_t ready_ = 0;
  std::uint64_t decided_ = 0;
};

}  // namespace xoe::engine

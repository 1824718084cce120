#include "engine/negotiate/replay.h"

#include <algorithm>

namespace xoe::engine {

std::uint64_t Replay::hash_of(const PlanRecord& record, NameTable& table) {
  StableHash hash;
  for (const auto& unit : record.units) {
    hash.add(std::uint64_t{unit.size()});
    for (const std::uint32_t id : unit) {
      const NameEntry* entry = table.by_id(id);
      if (entry == nullptr || !entry->agreed) return 0;
      hash.add(entry->name());
      hash.add(entry->signature);
    }
  }
  return hash.value() | 1;
}

Result<Replay> Replay::open(const PlanRecord& record, NameTable& table) {
  Replay replay;
  replay.hash_ = hash_of(record, table);
  if (replay.hash_ != record.hash || replay.hash_ == 0)
    return failure(Code::kInternal, "negotiation between hosts: a plan of tensors that are known differently here");
  for (const auto& unit : record.units) {
    for (const std::uint32_t id : unit) {
      replay.places_.emplace_back(id, static_cast<std::uint32_t>(replay.ids_.size()));
      replay.ids_.push_back(id);
    }
    replay.ends_.push_back(replay.ids_.size());
  }
  std::sort(replay.places_.begin(), replay.places_.end());
  return replay;
}

std::uint64_t Replay::end_of(std::uint64_t units) const {
  const std::uint64_t rest = units % ends_.size();
  return units / ends_.size() * ids_.size() + (rest == 0 ? 0 : ends_[rest - 1]);
}

bool Replay::holds(const NameEntry& entry) const {
  const auto found = std::lower_bound(places_.begin(), places_.end(), std::pair(entry.id, std::uint32_t{0}));
  return found != places_.end() && found->first == entry.id;
}

std::uint64_t Replay::place_of(const NameEntry& entry) const {
  const std::uint64_t start = end_of(decided_);
  const std::uint64_t round = start / ids_.size();
  const auto within = static_cast<std::uint32_t>(start % ids_.size());
  const auto found = std::lower_bound(places_.begin(), places_.end(), std::pair(entry.id, within));
  if (found != places_.end() && found->first == entry.id) return round * ids_.size() + found->second;
  const auto first = std::lower_bound(places_.begin(), places_.end(), std::pair(entry.id, std::uint32_t{0}));
  return (round + 1) * ids_.size() + first->second;
}

bool Replay::expects(const NameEntry& entry) const {
  return holds(entry) && place_of(entry) / ids_.size() <= next_ / ids_.size();
}

std::uint64_t Replay::unit_of(const NameEntry& entry) const {
  const std::uint64_t place = place_of(entry);
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), place % ids_.size());
  return place / ids_.size() * ends_.size() + static_cast<std::uint64_t>(end - ends_.begin());
}

void Replay::advance(NameTable& table) {
  while (true) {
    NameEntry& entry = *table.by_id(ids_[next_ % ids_.size()]);
    // Counted: ready for an earlier place only.
    if (!entry.local || !entry.as_agreed() || entry.counted) return;
    entry.counted = true;
    ++next_;
    if (next_ == end_of(ready_ + 1)) ++ready_;
  }
}

std::vector<std::uint32_t> Replay::decide(std::uint64_t units) {
  std::vector<std::uint32_t> ids;
  const std::uint64_t end = end_of(units);
  for (std::uint64_t at = end_of(decided_); at < end; ++at) ids.push_back(ids_[at % ids_.size()]);
  decided_ = units;
  return ids;
}

std::uint32_t Replay::check(std::uint64_t units, std::uint64_t sequence) const {
  StableHash hash;
  hash.add(hash_);
  hash.add(units);
  hash.add(sequence);
  return static_cast<std::uint32_t>(hash.value());
}

}  // namespace xoe::engine

// What only the root's Coordinator does: deciding, and looking for plans.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/negotiate/coordinator.h"

namespace xoe::engine {

bool Coordinator::has_ready() const {
  if (!is_root() || !state_) return false;
  if (replay_) return subtree_units() > replay_->decided();
  return !complete_.empty() || subtree_joined();
}

void Coordinator::flush(std::uint64_t knobs) {
  if (!has_ready()) return;
  if (replay_) return decide_units(knobs);
  decide_group(knobs);
  evict_oldest();
  look_for_plan();
}

void Coordinator::announce(const DownRecord& record) {
  append(down_, record);
  // The root decides nothing that it cannot apply; if it did, state_ says so.
  (void)apply(record);
}

void Coordinator::decide_units(std::uint64_t knobs) {
  const std::uint64_t units = subtree_units();
  UnitsRecord record{.units = units, .check = replay_->check(units, applied_), .knobs = {}};
  if (knobs != knobs_) record.knobs = knobs;
  announce(record);
}

void Coordinator::add_to(GroupRecord& record, NameEntry& entry) {
  std::vector<HostValue> values = values_of(entry);
  NameKey key;
  if (entry.known())
    key.id = entry.id;
  else
    key.name = entry.name();
  HostValue& first = values.front();
  if (values.size() > 1 || first.failed) {
    std::string text = fmt::format("'{}': ranks disagree: {}", entry.name(), describe(std::move(values)));
    text.resize(std::min(text.size(), kMaxErrorBytes));
    record.errors.push_back({std::move(key), 0, std::move(text)});
  } else if (entry.agreed && entry.signature == first.signature) {
    record.known.push_back(entry.id);
  } else {
    record.settled.push_back({std::move(key), first.signature, std::move(first.text)});
  }
}

void Coordinator::decide_group(std::uint64_t knobs) {
  GroupRecord record{.sequence = applied_, .knobs = knobs, .known = {}, .settled = {}, .errors = {}, .joined = {}};
  for (NameEntry* entry : std::exchange(complete_, {})) add_to(record, *entry);
  std::sort(record.known.begin(), record.known.end());
  if (subtree_joined()) record.joined = last_rank_;
  announce(record);
  if (!state_ || !options_.replay || hosts_ == 1) return;
  const bool regular = record.errors.empty() && !record.joined;
  if (!regular || std::any_of(record.settled.begin(), record.settled.end(),
                              [](const GroupRecord::Named& named) { return named.key.id.has_value(); }))
    history_.clear();
  if (!regular) return;
  std::vector<std::uint32_t> ids = std::move(record.known);
  for (const auto& named : record.settled) ids.push_back(table_.resolve(named.key)->id);
  history_.add_group(ids);
}

void Coordinator::evict_oldest() {
  const std::size_t capacity = options_.cache_capacity;
  if (!state_ || table_.known() <= capacity) return;
  history_.clear();
  // Some at once, since all that is undecided is told anew.
  announce(EvictRecord{.epoch = epoch_ + 1, .ids = table_.oldest(table_.known() - (capacity - capacity / 8))});
}

void Coordinator::look_for_plan() {
  if (!state_ || !options_.replay || joined_ || children_joined_ != 0) return;
  const auto groups = history_.period();
  if (!groups) return;
  PlanRecord record{.epoch = epoch_ + 1, .hash = 0, .units = {}};
  for (const auto& group : *groups) {
    for (std::size_t first = 0; first < group.size(); first += options_.unit_tensors) {
      const auto begin = group.begin() + static_cast<std::ptrdiff_t>(first);
      const std::size_t size = std::min(options_.unit_tensors, group.size() - first);
      record.units.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
    }
  }
  record.hash = Replay::hash_of(record, table_);
  const auto plan = Replay::open(record, table_);
  if (!plan) return;
  // Whatever else is under way would break it at once.
  const bool foreign = std::any_of(table_.active().begin(), table_.active().end(), [&](const NameEntry* entry) {
    return !entry->known() || !plan->holds(*entry) || entry->differing != 0 || (entry->local && !entry->as_agreed());
  });
  if (!foreign) announce(record);
}

}  // namespace xoe::engine

// How a Coordinator gathers what is ready at its host and below, and tells its parent.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "engine/negotiate/coordinator.h"

namespace xoe::engine {

using Stage = NameEntry::Stage;

void Coordinator::submitted(NameEntry& entry) {
  entry.local = true;
  table_.activate(entry);
  if (!replay_) return check_complete(entry);
  if (!entry.as_agreed() || !replay_->expects(entry)) return deviate();
  replay_->advance(table_);
}

void Coordinator::check_complete(NameEntry& entry) {
  const bool here = entry.local || joined_;
  if (entry.stage != Stage::kGathering || !here || !entry.undecided()) return;
  if ((entry.arrived | children_joined_) != all_children_) return;
  entry.stage = Stage::kComplete;
  complete_.push_back(&entry);
}

void Coordinator::check_all_complete() {
  for (NameEntry* entry : table_.active()) check_complete(*entry);
}

void Coordinator::deviate() {
  if (is_root())
    announce(BreakRecord{.epoch = epoch_ + 1});
  else
    deviates_ = true;
}

bool Coordinator::subtree_joined() const { return joined_ && children_joined_ == all_children_; }

std::uint64_t Coordinator::subtree_units() const {
  std::uint64_t units = replay_->ready();
  for (const std::uint64_t below : child_units_) units = std::min(units, below);
  return units;
}

std::vector<HostValue> Coordinator::values_of(const NameEntry& entry) const {
  std::vector<HostValue> values = entry.values;
  if (entry.local) add_value(values, own_value(entry, host_));
  for (std::uint32_t left = entry.arrived & ~entry.differing; left != 0; left &= left - 1) {
    const int host = child(std::countr_zero(left));
    add_value(values, {.signature = entry.signature, .host = static_cast<std::uint32_t>(host), .text = entry.text()});
  }
  return values;
}

void Coordinator::report(NameEntry& entry, Reports& reports) {
  entry.stage = Stage::kReported;
  // A host that has joined tells values, so that whoever tells an id is an example of its value.
  if (entry.local && entry.as_agreed() && entry.differing == 0) return reports.known.push_back(entry.id);
  NameKey key;
  if (entry.known())
    key.id = entry.id;
  else
    key.name = entry.name();
  reports.items.push_back({std::move(key), values_of(entry)});
}

std::optional<std::vector<std::byte>> Coordinator::take_report() {
  if (replay_ && deviates_) {
    if (std::exchange(deviation_told_, true)) return std::nullopt;
    return encode(Leave{.epoch = epoch_});
  }
  if (replay_) {
    const std::uint64_t units = subtree_units();
    if (units == told_units_) return std::nullopt;
    told_units_ = units;
    return encode(Progress{.epoch = epoch_, .units = units, .check = replay_->check(units, epoch_)});
  }
  Reports reports{.epoch = epoch_, .applied = applied_, .known = {}, .items = {}, .joined = {}};
  for (NameEntry* entry : std::exchange(complete_, {})) report(*entry, reports);
  std::sort(reports.known.begin(), reports.known.end());
  if (subtree_joined() && !join_told_) {
    join_told_ = true;
    reports.joined = last_rank_;
  }
  if (reports.known.empty() && reports.items.empty() && !reports.joined) return std::nullopt;
  return encode(reports);
}

Status Coordinator::receive_up(int index, const UpMessage& message) {
  const std::uint64_t epoch = std::visit([](const auto& one) { return one.epoch; }, message);
  if (epoch > epoch_) return fail("a report from an epoch that has not begun");
  // The sender tells it anew once it learns of this epoch.
  if (epoch < epoch_) return {};
  if (std::holds_alternative<Reports>(message) == replay_.has_value()) return fail("a report of the wrong kind");
  return std::visit([&](const auto& one) { return accept(index, one); }, message);
}

Status Coordinator::accept(int index, const Reports& reports) {
  if (reports.applied > applied_) return fail("a report about a decision that was not taken");
  const std::uint32_t bit = std::uint32_t{1} << index;
  for (const std::uint32_t id : reports.known) {
    NameEntry* entry = table_.by_id(id);
    if (entry == nullptr || !entry->agreed) return fail("a report about an unknown id");
    // Decided without the sender, which had joined and calls it ready after all.
    if (entry->decided_at > reports.applied) continue;
    XOE_TRY(arrive(*entry, bit));
  }
  for (const Reports::Item& item : reports.items) {
    NameEntry* entry = table_.resolve(item.key);
    if (entry == nullptr) return fail("a report about an unknown id");
    if (entry->decided_at > reports.applied) continue;
    for (const HostValue& value : item.values) add_value(entry->values, value);
    entry->differing |= bit;
    XOE_TRY(arrive(*entry, bit));
  }
  if (reports.joined) {
    children_joined_ |= bit;
    last_rank_ = *reports.joined;
    check_all_complete();
  }
  return {};
}

Status Coordinator::arrive(NameEntry& entry, std::uint32_t bit) {
  if (entry.arrived & bit) return fail("a tensor reported twice");
  entry.arrived |= bit;
  table_.activate(entry);
  check_complete(entry);
  return {};
}

Status Coordinator::accept(int index, const Progress& progress) {
  std::uint64_t& units = child_units_[static_cast<std::size_t>(index)];
  if (progress.units <= units || progress.units > replay_->decided() + replay_->units())
    return fail("progress that cannot be");
  if (progress.check != replay_->check(progress.units, epoch_)) return fail("progress in another plan");
  units = progress.units;
  return {};
}

Status Coordinator::accept(int, const Leave&) {
  deviate();
  return state_;
}

}  // namespace xoe::engine

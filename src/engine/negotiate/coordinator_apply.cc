// How every Coordinator, the root's too, applies what the root decided.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/negotiate/coordinator.h"

namespace xoe::engine {

Status Coordinator::apply(const DownRecord& record) {
  return std::visit([this](const auto& one) { return apply_one(one); }, record);
}

Status Coordinator::decide(NameEntry* entry, std::string error, Decision& decision) {
  if (entry == nullptr) return fail("a decision about an unknown id");
  const bool told = is_root() || replay_ || entry->stage == NameEntry::Stage::kReported || join_told_;
  if (!told || (!entry->local && !joined_)) return fail("a decision about " + entry->name() + ", which is not ready");
  if (entry->stage == NameEntry::Stage::kComplete) std::erase(complete_, entry);
  entry->decided_at = applied_ + 1;
  DecidedTensor& tensor = decision.tensors.emplace_back();
  tensor.label = entry->label;
  if (error.empty()) tensor.signature = entry->signature;
  tensor.error = std::move(error);
  table_.settle(*entry);
  return {};
}

Status Coordinator::settle(const GroupRecord::Named& named, bool is_error, Decision& decision) {
  NameEntry* entry = table_.resolve(named.key);
  if (entry == nullptr) return fail("a decision about an unknown id");
  if (!named.key.id && entry->known()) return fail("a second id for " + entry->name());
  if (!entry->known()) table_.assign(*entry);
  if (is_error) return decide(entry, named.text, decision);
  entry->agreed = true;
  entry->signature = named.signature;
  entry->label = std::make_shared<const TensorLabel>(TensorLabel{entry->name(), named.text});
  return decide(entry, {}, decision);
}

Status Coordinator::apply_one(const GroupRecord& record) {
  if (replay_ || record.sequence != applied_) return fail("a decision out of sequence");
  Decision decision{.sequence = applied_, .knobs = record.knobs, .tensors = {}, .joined = record.joined};
  decision.tensors.reserve(record.known.size() + record.settled.size() + record.errors.size());
  for (const std::uint32_t id : record.known) XOE_TRY(decide(table_.by_id(id), {}, decision));
  for (const auto& named : record.settled) XOE_TRY(settle(named, false, decision));
  for (const auto& named : record.errors) XOE_TRY(settle(named, true, decision));
  ++applied_;
  knobs_ = record.knobs;
  if (record.joined) {
    if (!is_root() && !join_told_) return fail("a join before this host had joined");
    joined_ = join_told_ = false;
    children_joined_ = 0;
  }
  decisions_.push_back(std::move(decision));
  return {};
}

Status Coordinator::apply_one(const UnitsRecord& record) {
  if (!replay_) return fail("a decision out of a plan");
  const std::uint64_t ready = is_root() ? subtree_units() : told_units_;
  if (record.units <= replay_->decided() || record.units > ready) return fail("a decision about what is not ready");
  if (record.check != replay_->check(record.units, applied_)) return fail("a decision in another plan");
  if (record.knobs) knobs_ = *record.knobs;
  Decision decision{.sequence = applied_, .knobs = knobs_, .tensors = {}, .joined = {}, .replayed = true};
  for (const std::uint32_t id : replay_->decide(record.units)) XOE_TRY(decide(table_.by_id(id), {}, decision));
  ++applied_;
  decisions_.push_back(std::move(decision));
  return {};
}

Status Coordinator::begin_epoch(std::uint64_t epoch) {
  if (epoch != epoch_ + 1) return fail("an epoch out of sequence");
  epoch_ = epoch;
  complete_.clear();
  children_joined_ = 0;
  join_told_ = deviates_ = deviation_told_ = false;
  replay_.reset();
  std::fill(child_units_.begin(), child_units_.end(), 0);
  told_units_ = 0;
  for (NameEntry* entry : std::vector(table_.active())) {
    entry->arrived = entry->differing = 0;
    entry->values.clear();
    entry->stage = NameEntry::Stage::kGathering;
    entry->counted = false;
    if (!entry->local) table_.settle(*entry);
  }
  return {};
}

Status Coordinator::apply_one(const PlanRecord& record) {
  if (replay_) return fail("a plan within a plan");
  auto plan = Replay::open(record, table_);
  if (!plan) return state_ = failure(plan.error());
  XOE_TRY(begin_epoch(record.epoch));
  replay_ = std::move(*plan);
  replay_->advance(table_);
  const bool deviates = std::any_of(table_.active().begin(), table_.active().end(), [&](const NameEntry* entry) {
    return !entry->as_agreed() || !replay_->expects(*entry);
  });
  if (deviates || joined_) deviate();
  return state_;
}

Status Coordinator::apply_one(const BreakRecord& record) {
  if (!replay_) return fail("a break without a plan");
  if (is_root()) history_.broke(replay_->length(), replay_->followed());
  XOE_TRY(begin_epoch(record.epoch));
  check_all_complete();
  return {};
}

Status Coordinator::apply_one(const EvictRecord& record) {
  if (replay_) return fail("an eviction within a plan");
  for (const std::uint32_t id : record.ids) {
    NameEntry* entry = table_.by_id(id);
    if (entry == nullptr) return fail("an eviction of an unknown id");
    table_.evict(*entry);
  }
  XOE_TRY(begin_epoch(record.epoch));
  check_all_complete();
  return {};
}

}  // namespace xoe::engine

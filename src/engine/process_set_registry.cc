#include "engine/process_set_registry.h"

#include <algorithm>
#include <thread>

#include "base/error.h"

namespace xoe::engine {

ProcessSetRegistry::Use::Use(ProcessSetRegistry& registry, ProcessSetId id) {
  if (id < 0 || id >= kMaxSets) return;
  slot_ = &registry.slots_[static_cast<std::size_t>(id)];
  slot_->users.fetch_add(1, std::memory_order_seq_cst);
  set_ = slot_->set.load(std::memory_order_seq_cst);
}

ProcessSetRegistry::Use::~Use() {
  if (slot_ != nullptr) slot_->users.fetch_sub(1, std::memory_order_seq_cst);
}

bool ProcessSetRegistry::Use::exists() const noexcept {
  return slot_ != nullptr && slot_->exists.load(std::memory_order_acquire);
}

void ProcessSetRegistry::wait_for_users(const Slot& slot) noexcept {
  while (slot.users.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
}

ProcessSetRegistry::~ProcessSetRegistry() {
  for (Slot& slot : slots_) delete slot.set.load();
}

Result<std::vector<int>> ProcessSetRegistry::ranks(ProcessSetId id) const {
  const std::lock_guard lock(ranks_mutex_);
  if (id < 0 || static_cast<std::size_t>(id) >= ranks_.size() || ranks_[static_cast<std::size_t>(id)].empty())
    return failure(Code::kInvalidArgument, "there is no process set {}", id);
  return ranks_[static_cast<std::size_t>(id)];
}

std::vector<ProcessSetId> ProcessSetRegistry::ids() const {
  const std::lock_guard lock(ranks_mutex_);
  std::vector<ProcessSetId> ids;
  for (std::size_t id = 0; id < ranks_.size(); ++id)
    if (!ranks_[id].empty()) ids.push_back(static_cast<ProcessSetId>(id));
  return ids;
}

void ProcessSetRegistry::add_world(std::unique_ptr<ProcessSet> world) {
  ranks_.push_back(world->ranks());
  world_ = world.release();
  slots_[0].set.store(world_);
  slots_[0].exists.store(true);
  count_.store(1);
}

Result<ProcessSetId> ProcessSetRegistry::add(std::vector<int> ranks, const Form& form) {
  const auto index = ranks_.size();  // only this thread changes it
  if (index >= slots_.size())
    return failure(Code::kResourceExhausted, "add_process_set: an engine makes at most {} sets", slots_.size());
  {
    // The id is used up on all ranks, also if the set cannot be formed: ids must not drift apart.
    const std::lock_guard lock(ranks_mutex_);
    ranks_.emplace_back();
  }
  count_.store(index + 1, std::memory_order_release);
  const auto id = static_cast<ProcessSetId>(index);
  const auto own = std::find(ranks.begin(), ranks.end(), world_->rank());
  const bool member = own != ranks.end();
  const auto formed = [&]() -> Result<std::unique_ptr<ProcessSet>> {
    XOE_ASSIGN(auto comm, world_->comm().split(member ? 0 : -1, static_cast<int>(own - ranks.begin())));
    if (!comm) return std::unique_ptr<ProcessSet>();
    return form(id, std::move(*comm), ranks);
  };
  auto set = formed();
  std::int32_t formed_everywhere = set ? 1 : 0;
  XOE_TRY(world_->comm().allreduce(Tensor(&formed_everywhere, 1), ReduceOp::kMin, {.name = "add_process_set"}));
  if (!set) return failure(set.error());
  if (formed_everywhere == 0)
    return failure(Code::kResourceExhausted, "add_process_set: another rank could not form the set");
  {
    const std::lock_guard lock(ranks_mutex_);
    ranks_[index] = std::move(ranks);
  }
  slots_[index].set.store(set->release(), std::memory_order_seq_cst);
  slots_[index].exists.store(true, std::memory_order_release);
  return id;
}

Status ProcessSetRegistry::remove(ProcessSetId id) {
  {
    const std::lock_guard lock(ranks_mutex_);
    if (id < 0 || static_cast<std::size_t>(id) >= ranks_.size() || ranks_[static_cast<std::size_t>(id)].empty())
      return failure(Code::kInvalidArgument, "remove_process_set: there is no process set {}", id);
    ranks_[static_cast<std::size_t>(id)].clear();
  }
  Slot& slot = slots_[static_cast<std::size_t>(id)];
  slot.exists.store(false, std::memory_order_release);
  const std::unique_ptr<ProcessSet> set(slot.set.exchange(nullptr, std::memory_order_seq_cst));
  if (set != nullptr) {
    wait_for_users(slot);
    set->fail(Error(Code::kInvalidArgument, "the process set was removed"));
  }
  // No rank leaves the set's communicator before all have failed its operations: peers would take it for a lost rank.
  return world_->comm().barrier({.name = "remove_process_set"});
}

std::vector<std::unique_ptr<ProcessSet>> ProcessSetRegistry::take_all() {
  std::vector<std::unique_ptr<ProcessSet>> sets;
  for (Slot& slot : slots_)
    if (ProcessSet* set = slot.set.exchange(nullptr, std::memory_order_seq_cst); set != nullptr) {
      wait_for_users(slot);
      sets.emplace_back(set);
    }
  return sets;
}

}  // namespace xoe::engine

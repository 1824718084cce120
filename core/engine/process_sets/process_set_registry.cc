#include "core/engine/process_sets/process_set_registry.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace xoe::engine {

ProcessSetRegistry::Use::Use(ProcessSetRegistry& registry, ProcessSetId id) {
  slot_ = registry.slot(id);
  if (slot_ == nullptr) return;
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

void ProcessSetRegistry::delete_unused() {
  std::erase_if(removed_,
                [this](const auto& set) { return slot(set->id())->users.load(std::memory_order_seq_cst) == 0; });
}

ProcessSetRegistry::~ProcessSetRegistry() {
  for (ProcessSet* const set : sets_) delete set;
}

Result<std::vector<int>> ProcessSetRegistry::ranks(ProcessSetId id) const {
  const std::lock_guard lock(ranks_mutex_);
  const auto found = ranks_.find(id);
  if (found == ranks_.end()) return failure(Code::kInvalidArgument, "there is no process set {}", id);
  return found->second;
}

std::vector<ProcessSetId> ProcessSetRegistry::ids() const {
  const std::lock_guard lock(ranks_mutex_);
  std::vector<ProcessSetId> ids;
  for (const auto& [id, ranks] : ranks_) ids.push_back(id);
  return ids;
}

ProcessSetRegistry::Slot* ProcessSetRegistry::slot(ProcessSetId id) const noexcept {
  const Pages* const pages = pages_.load(std::memory_order_acquire);
  const auto index = static_cast<std::size_t>(id);
  if (id < 0 || pages == nullptr || index / kPageSlots >= pages->size()) return nullptr;
  Page* const page = (*pages)[index / kPageSlots].load(std::memory_order_acquire);
  return page == nullptr ? nullptr : &(*page)[index % kPageSlots];
}

ProcessSetRegistry::Slot& ProcessSetRegistry::make_slot(ProcessSetId id) {
  if (Slot* const made = slot(id); made != nullptr) return *made;
  const std::size_t number = static_cast<std::size_t>(id) / kPageSlots;
  const Pages* const old = pages_.load(std::memory_order_relaxed);
  if (old == nullptr || number >= old->size()) {
    page_lists_.push_back(std::make_unique<Pages>(std::max<std::size_t>(16, number * 2)));
    for (std::size_t i = 0; i < owned_.size(); ++i) (*page_lists_.back())[i].store(owned_[i].get());
    pages_.store(page_lists_.back().get(), std::memory_order_release);
  }
  Page* const page = owned_.emplace_back(std::make_unique<Page>()).get();
  (*page_lists_.back())[number].store(page, std::memory_order_release);
  return (*page)[static_cast<std::size_t>(id) % kPageSlots];
}

void ProcessSetRegistry::add_world(std::unique_ptr<ProcessSet> world) {
  ranks_.emplace(kWorldSet, world->ranks());
  world_ = world.release();
  sets_.push_back(world_);
  Slot& slot = make_slot(kWorldSet);
  slot.set.store(world_);
  slot.exists.store(true);
  next_id_ = 1;
}

Result<ProcessSetId> ProcessSetRegistry::add(std::vector<int> ranks, const Form& form) {
  if (next_id_ > std::numeric_limits<ProcessSetId>::max())
    return failure(Code::kResourceExhausted, "add_process_set: this engine has made {} sets; no id is left", next_id_);
  delete_unused();
  // The id is used up on all ranks, also if the set cannot be formed: ids must not drift apart.
  const auto id = static_cast<ProcessSetId>(next_id_++);
  Slot& slot = make_slot(id);
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
  if (set && *set != nullptr) (*set)->comm().backend().all_met();
  if (!set) return failure(set.error());
  if (formed_everywhere == 0)
    return failure(Code::kResourceExhausted, "add_process_set: another rank could not form the set");
  {
    const std::lock_guard lock(ranks_mutex_);
    ranks_.emplace(id, std::move(ranks));
  }
  if (*set != nullptr) sets_.push_back(set->get());
  slot.set.store(set->release(), std::memory_order_seq_cst);
  slot.exists.store(true, std::memory_order_release);
  return id;
}

Status ProcessSetRegistry::remove(ProcessSetId id) {
  {
    const std::lock_guard lock(ranks_mutex_);
    if (ranks_.erase(id) == 0)
      return failure(Code::kInvalidArgument, "remove_process_set: there is no process set {}", id);
  }
  Slot& slot = make_slot(id);
  slot.exists.store(false, std::memory_order_release);
  if (std::unique_ptr<ProcessSet> set(slot.set.exchange(nullptr, std::memory_order_seq_cst)); set != nullptr) {
    std::erase(sets_, set.get());
    set->fail(Error(Code::kInvalidArgument, "the process set was removed"));
    removed_.push_back(std::move(set));
  }
  // No rank leaves the set's communicator before all have failed its operations: peers would take it for a lost rank.
  Status met = world_->comm().barrier({.name = "remove_process_set"});
  delete_unused();
  return met;
}

std::vector<std::unique_ptr<ProcessSet>> ProcessSetRegistry::take_all() {
  std::vector<std::unique_ptr<ProcessSet>> sets;
  for (ProcessSet* const set : std::exchange(sets_, {})) {
    Slot& slot = make_slot(set->id());
    slot.set.exchange(nullptr, std::memory_order_seq_cst);
    sets.emplace_back(set);
  }
  for (auto& set : std::exchange(removed_, {})) sets.push_back(std::move(set));
  return sets;
}

void ProcessSetRegistry::wait_until_unused(const std::vector<std::unique_ptr<ProcessSet>>& sets) const noexcept {
  for (const auto& set : sets) wait_for_users(*slot(set->id()));
}

}  // namespace xoe::engine

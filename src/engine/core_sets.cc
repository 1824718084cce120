// Core, the half that makes and removes process sets.
#include <algorithm>

#include "base/error.h"
#include "engine/core.h"

namespace xoe::engine {

Result<std::vector<int>> Core::process_set_ranks(ProcessSetId id) const {
  const std::lock_guard lock(ranks_mutex_);
  if (id < 0 || static_cast<std::size_t>(id) >= set_ranks_.size() || set_ranks_[static_cast<std::size_t>(id)].empty())
    return failure(Code::kInvalidArgument, "there is no process set {}", id);
  return set_ranks_[static_cast<std::size_t>(id)];
}

std::vector<ProcessSetId> Core::process_sets() const {
  const std::lock_guard lock(ranks_mutex_);
  std::vector<ProcessSetId> ids;
  for (std::size_t id = 0; id < set_ranks_.size(); ++id)
    if (!set_ranks_[id].empty()) ids.push_back(static_cast<ProcessSetId>(id));
  return ids;
}

// Threads may ask for the same at once: the n-th request of a rank meets the others' n-th.
std::string Core::internal_name(const std::string& what) {
  const std::lock_guard lock(ranks_mutex_);
  return fmt::format("{} #{}", what, ++internal_names_[what]);
}

Result<std::shared_ptr<Submission>> Core::run_internal_request(InternalKind kind, const std::string& what,
                                                               std::vector<std::int64_t> argument) {
  XOE_TRY(check_usable());
  auto submission = Submission::make_internal(kind, internal_name(what), std::move(argument));
  XOE_TRY(hand_over(*world_, submission));
  XOE_TRY(wait(*submission, std::nullopt));
  return submission;
}

Result<ProcessSetId> Core::add_process_set(std::span<const int> ranks) {
  if (ranks.empty()) return failure(Code::kInvalidArgument, "add_process_set: no ranks");
  std::vector<bool> seen(static_cast<std::size_t>(topology_.size));
  for (const int rank : ranks) {
    if (rank < 0 || rank >= topology_.size)
      return failure(Code::kInvalidArgument, "add_process_set: rank {} is not one of the {} ranks", rank,
                     topology_.size);
    if (seen[static_cast<std::size_t>(rank)])
      return failure(Code::kInvalidArgument, "add_process_set: rank {} is there twice", rank);
    seen[static_cast<std::size_t>(rank)] = true;
  }
  XOE_ASSIGN(const auto done,
             run_internal_request(InternalKind::kAddProcessSet, "add_process_set", {ranks.begin(), ranks.end()}));
  return done->process_set;
}

Status Core::remove_process_set(ProcessSetId id) {
  if (id == kWorldSet) return failure(Code::kInvalidArgument, "remove_process_set: set 0 is the world; it stays");
  XOE_ASSIGN(const auto done, run_internal_request(InternalKind::kRemoveProcessSet, "remove_process_set", {id}));
  return {};
}

Status Core::run_internal(Submission& submission) {
  const auto kind = submission.op.internal;
  if (kind == InternalKind::kAddProcessSet) return make_set(submission);
  if (kind == InternalKind::kMeet) return {};
  return drop_set(static_cast<ProcessSetId>(submission.argument[0]));
}

// key: this rank's place in the set; negative: it is not in it, and gets none.
Result<std::unique_ptr<ProcessSet>> Core::form_set(ProcessSetId id, int key, const std::vector<int>& ranks) {
  XOE_ASSIGN(auto comm, world_->comm().split(key < 0 ? -1 : 0, key));
  if (!comm) return std::unique_ptr<ProcessSet>();
  return ProcessSet::create(id, std::move(*comm), ranks, options_, gpu_, *this);
}

Status Core::make_set(Submission& submission) {
  std::vector<int> ranks(submission.argument.begin(), submission.argument.end());
  const auto place = std::find(ranks.begin(), ranks.end(), topology_.rank);
  const auto id = set_ranks_.size();  // only this thread writes it
  if (id >= sets_.size())
    return failure(Code::kResourceExhausted, "add_process_set: an engine makes at most {} sets", sets_.size());
  {
    // Taken by all, also if it comes to nothing: ids must not drift apart.
    const std::lock_guard lock(ranks_mutex_);
    set_ranks_.emplace_back();
  }
  set_count_.store(id + 1, std::memory_order_release);
  const auto given = static_cast<ProcessSetId>(id);
  const auto key = static_cast<int>(place - ranks.begin());
  auto set = form_set(given, place != ranks.end() ? key : -1, ranks);
  std::int32_t well = set ? 1 : 0;
  XOE_TRY(world_->comm().allreduce(Tensor(&well, 1), ReduceOp::kMin, {.name = "add_process_set"}));
  if (!set) return failure(set.error());
  if (well == 0) return failure(Code::kResourceExhausted, "add_process_set: another rank could not form the set");
  {
    const std::lock_guard lock(ranks_mutex_);
    set_ranks_[id] = std::move(ranks);
  }
  sets_[id].set.store(set->release(), std::memory_order_seq_cst);
  sets_[id].exists.store(true, std::memory_order_release);
  submission.process_set = given;
  return {};
}

Status Core::drop_set(ProcessSetId id) {
  {
    const std::lock_guard lock(ranks_mutex_);
    if (id < 0 || static_cast<std::size_t>(id) >= set_ranks_.size() || set_ranks_[static_cast<std::size_t>(id)].empty())
      return failure(Code::kInvalidArgument, "remove_process_set: there is no process set {}", id);
    set_ranks_[static_cast<std::size_t>(id)].clear();
  }
  SetSlot& slot = sets_[static_cast<std::size_t>(id)];
  slot.exists.store(false, std::memory_order_release);
  const std::unique_ptr<ProcessSet> set(slot.set.exchange(nullptr, std::memory_order_seq_cst));
  if (set != nullptr) {
    while (slot.users.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
    set->fail(Error(Code::kInvalidArgument, "the process set was removed"));
  }
  // Nobody leaves the set's communicator before all have given it up: to the others it would look like a lost rank.
  XOE_TRY(world_->comm().barrier({.name = "remove_process_set"}));
  return {};
}

}  // namespace xoe::engine

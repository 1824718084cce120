// One communicator's view of the Context: its ranks, their blocks and their memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/backend/shm/context.h"
#include "core/backend/shm/layout.h"
#include "core/backend/shm/wakeup_channel.h"
#include "core/base/process_activity.h"

namespace xoe::shm {

class Group {
 public:
  // ranks: context ranks by group rank. blocks: the offset of the group's RankBlock in each rank's arena.
  Group(std::shared_ptr<Context> context, std::vector<int> ranks, const std::vector<std::size_t>& blocks, int rank)
      : context_(std::move(context)),
        ranks_(std::move(ranks)),
        blocks_(block_pointers(*context_, ranks_, blocks)),
        wakeups_(wakeup_slots(*context_, ranks_), context_->member(0).header().sleepers, rank,
                 context_->asymmetric_fence()),
        rank_(rank),
        own_offset_(blocks[index(rank)]) {}

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }
  Context& context() const noexcept { return *context_; }
  const std::shared_ptr<Context>& shared_context() const noexcept { return context_; }
  const WakeupChannel& wakeups() const noexcept { return wakeups_; }

  RankBlock& block(int rank) const noexcept { return *blocks_[index(rank)]; }
  RankBlock& own() const noexcept { return block(rank_); }
  std::size_t own_offset() const noexcept { return own_offset_; }
  const Member& member(int rank) const noexcept { return context_->member(context_rank(rank)); }
  const Mapping& arena() const noexcept { return *member(rank_).mapping; }
  int context_rank(int rank) const noexcept { return ranks_[index(rank)]; }
  std::byte* address(int rank, std::uint64_t offset) const noexcept { return member(rank).mapping->base() + offset; }
  int job_rank(int rank) const noexcept { return context_->job_rank(context_rank(rank)); }  // for messages
  // 0 while the rank lives, else its position in the order in which this rank saw others end.
  int ended(int rank) const noexcept { return context_->ended(context_rank(rank)); }
  std::string who(int rank) const { return fmt::format("rank {} (pid {})", job_rank(rank), member(rank).pid); }

  // nullopt also where the rank is a thread of this process.
  std::optional<ProcessActivity> activity(int rank) const {
    const pid_t pid = member(rank).pid;
    return pid == member(rank_).pid ? std::nullopt : process_activity(pid);
  }

  // 1 + the rank whose record is the first cause (see kAborted); 0 while the group stands.
  std::uint32_t failed_by() const noexcept { return block(0).failed_by.load(std::memory_order_acquire); }
  // Surround every use of the peers' buffers. A rank that fails the group waits until no rank is in between, so that no
  // peer touches a buffer after its owner has been told of the failure. False: the group has failed; do not touch them.
  bool enter_buffers() const noexcept {
    own().busy.store(1, std::memory_order_seq_cst);
    if (block(0).failed_by.load(std::memory_order_seq_cst) == 0) [[likely]]
      return true;
    leave_buffers();
    return false;
  }
  void leave_buffers() const noexcept { own().busy.store(0, std::memory_order_release); }

 private:
  static std::vector<RankBlock*> block_pointers(const Context& context, const std::vector<int>& ranks,
                                                const std::vector<std::size_t>& offsets) {
    std::vector<RankBlock*> blocks;
    blocks.reserve(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) blocks.push_back(&context.member(ranks[i]).block_at(offsets[i]));
    return blocks;
  }
  static std::vector<WakeupSlot*> wakeup_slots(const Context& context, const std::vector<int>& ranks) {
    std::vector<WakeupSlot*> slots;
    slots.reserve(ranks.size());
    for (const int rank : ranks) slots.push_back(&context.member(rank).header().wakeup);
    return slots;
  }

  std::shared_ptr<Context> context_;
  std::vector<int> ranks_;
  std::vector<RankBlock*> blocks_;
  WakeupChannel wakeups_;
  int rank_;
  std::size_t own_offset_;
};

}  // namespace xoe::shm

// One communicator's view of the World: its ranks, their blocks and their memory.
#pragma once

#include <memory>
#include <vector>

#include "backend/shm/bell.h"
#include "backend/shm/layout.h"
#include "backend/shm/world.h"

namespace xoe::shm {

class Group {
 public:
  // ranks: world ranks by group rank. blocks: offset of the group's RankBlock in each one's arena.
  Group(std::shared_ptr<World> world, std::vector<int> ranks, const std::vector<std::size_t>& blocks, int rank)
      : world_(std::move(world)),
        ranks_(std::move(ranks)),
        blocks_(pointers(*world_, ranks_, blocks)),
        bells_(bells(*world_, ranks_), world_->member(0).header().sleepers, rank, world_->asymmetric_fence()),
        rank_(rank),
        own_offset_(blocks[static_cast<std::size_t>(rank)]) {}

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }
  World& world() const noexcept { return *world_; }
  const std::shared_ptr<World>& shared_world() const noexcept { return world_; }
  const Bells& bells() const noexcept { return bells_; }

  RankBlock& block(int rank) const noexcept { return *blocks_[static_cast<std::size_t>(rank)]; }
  RankBlock& own() const noexcept { return block(rank_); }
  std::size_t own_offset() const noexcept { return own_offset_; }
  const Member& member(int rank) const noexcept { return world_->member(ranks_[static_cast<std::size_t>(rank)]); }
  int world_rank(int rank) const noexcept { return ranks_[static_cast<std::size_t>(rank)]; }
  std::byte* address(int rank, std::uint64_t offset) const noexcept { return member(rank).mapping->base() + offset; }
  int job_rank(int rank) const noexcept { return world_->job_rank(world_rank(rank)); }  // for messages
  // 0 while the rank lives, else its place in the order in which this rank saw others end.
  int ended(int rank) const noexcept { return world_->ended(world_rank(rank)); }

  // 1 + the rank that failed the group first; 0: nobody has.
  std::uint32_t failed_by() const noexcept { return block(0).failed_by.load(std::memory_order_acquire); }
  // Around any use of the peers' buffers. Who fails the group waits until nobody is in between, so that no peer touches
  // a buffer whose owner has been told of the failure. False: the group has failed, and they must not be touched.
  bool enter_buffers() const noexcept {
    own().busy.store(1, std::memory_order_seq_cst);
    if (block(0).failed_by.load(std::memory_order_seq_cst) == 0) [[likely]]
      return true;
    leave_buffers();
    return false;
  }
  void leave_buffers() const noexcept { own().busy.store(0, std::memory_order_release); }

 private:
  static std::vector<RankBlock*> pointers(const World& world, const std::vector<int>& ranks,
                                          const std::vector<std::size_t>& offsets) {
    std::vector<RankBlock*> blocks;
    for (std::size_t i = 0; i < ranks.size(); ++i) blocks.push_back(&world.member(ranks[i]).block_at(offsets[i]));
    return blocks;
  }

  static std::vector<Bell*> bells(const World& world, const std::vector<int>& ranks) {
    std::vector<Bell*> bells;
    for (const int rank : ranks) bells.push_back(&world.member(rank).header().bell);
    return bells;
  }

  std::shared_ptr<World> world_;
  std::vector<int> ranks_;
  std::vector<RankBlock*> blocks_;
  Bells bells_;
  int rank_;
  std::size_t own_offset_;
};

}  // namespace xoe::shm

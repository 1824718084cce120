// The ranks of a job on this host: their arenas, mapped here, and which of the processes are alive.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/backend/shm/arena.h"
#include "core/backend/shm/layout.h"
#include "core/bootstrap/launch_info.h"
#include "core/bootstrap/peer_watch.h"
#include "core/bootstrap/store.h"
#include "xoe/status.h"

namespace xoe::shm {

struct Member {
  std::shared_ptr<Mapping> mapping;
  pid_t pid = 0;

  ArenaHeader& header() const noexcept { return *reinterpret_cast<ArenaHeader*>(mapping->base()); }
  RankBlock& block_at(std::size_t offset) const noexcept {
    return *reinterpret_cast<RankBlock*>(mapping->base() + offset);
  }
};

// All groups of a rank share one.
class Context {
 public:
  // The offset of the first group's RankBlock in every arena; the allocator begins behind it.
  static constexpr std::size_t kFirstBlock = 4096;
  static constexpr std::size_t kReserved = kFirstBlock + sizeof(RankBlock);

  // Publishes this rank's arena in `store` and maps the arenas of all others. keys: the prefix of all keys that the
  // ranks of this host use for this Context, and only they. job_ranks: the names of the local ranks in messages; empty:
  // their local ranks.
  static Result<std::shared_ptr<Context>> join(const Topology& topology, bootstrap::Store& store, std::string_view keys,
                                               std::chrono::nanoseconds timeout, std::size_t arena_bytes,
                                               std::vector<int> job_ranks = {});
  // For `size` ranks that are threads of this process, one Context each.
  static Result<std::vector<std::shared_ptr<Context>>> threads(int size, std::size_t arena_bytes);

  int rank() const noexcept { return rank_; }
  int job_rank(int rank) const noexcept { return job_ranks_.empty() ? rank : job_ranks_[index(rank)]; }
  int size() const noexcept { return static_cast<int>(members_.size()); }
  const Member& member(int rank) const noexcept { return members_[index(rank)]; }
  const std::shared_ptr<Arena>& arena() const noexcept { return arena_; }

  bool asymmetric_fence() const noexcept { return asymmetric_fence_; }
  // More ranks than cores that they may use, or than a container's quota allows: then waiting threads do not spin.
  bool oversubscribed() const noexcept { return oversubscribed_; }

  // Calls `listener`, from the watching thread, with each rank whose process ends from now on. There is one listener;
  // null removes it, and no call is in progress when this returns.
  void on_ended(std::function<void(int)> listener);

  // Has any process ended? One load, for the hot path.
  bool any_ended() const noexcept { return ended_count_.load(std::memory_order_acquire) != 0; }
  // 0 while the rank lives, else its position in the order in which processes were seen to end.
  int ended(int rank) const noexcept { return ended_[index(rank)].load(std::memory_order_acquire); }

  struct Extent {
    std::size_t offset;
    std::size_t bytes;
  };
  // Frees a group's block and its other extents of this rank's arena, once all `size` ranks have left it. The first
  // group's block stays.
  void retire(std::size_t block_offset, int size, std::vector<Extent> extents);
  // Frees the retired blocks that no rank uses any more.
  void reclaim();

 private:
  Context(int rank, std::shared_ptr<Arena> arena) : rank_(rank), arena_(std::move(arena)), ended_(kMaxRanks) {}
  void finish_join();  // computes the properties that depend on all members
  void notify_ended(int rank);

  int rank_;
  std::vector<int> job_ranks_;
  std::shared_ptr<Arena> arena_;
  std::vector<Member> members_;
  std::mutex listener_mutex_;
  std::function<void(int)> listener_;
  bool asymmetric_fence_ = false;
  bool oversubscribed_ = false;
  std::vector<std::atomic<int>> ended_;
  std::atomic<int> ended_count_{0};
  struct Retired {
    std::size_t offset;
    int size;
    std::vector<Extent> extents;
  };
  std::mutex retired_mutex_;
  std::vector<Retired> retired_;
  std::unique_ptr<bootstrap::PeerWatch> watch_;  // last: its thread uses the members above
};

}  // namespace xoe::shm

// The data of one collective: where it lies on each rank, and how it moves from there, round by round.
#pragma once

#include <cstdint>
#include <vector>

#include "core/backend/collective.h"
#include "core/backend/shm/group.h"
#include "core/backend/shm/partition.h"
#include "core/backend/shm/segment_list.h"
#include "core/backend/shm/slots.h"

namespace xoe::shm {

// Small inputs are eager: each rank posts its input, inline beside the header's flag or in its eager slot, and every
// rank computes its result from the posted inputs. Larger operations take rounds. In a round a rank packs (stages the
// input that peers cannot reach in its arena), processes (reduces or copies its share) and copies out (fetches what
// peers wrote to its staged chunk). Where ranks reach each other's memory, they write results there themselves: those
// of a sum, and the root a part of a broadcast. Operation decides when each of these steps may run.
class OperationData {
 public:
  explicit OperationData(const Group& group);

  // Copies the arguments of operation `number`; the object may be reused.
  void assign(const Collective& collective, std::uint32_t number);
  const Collective& call() const noexcept { return *call_; }
  const Slots& slots() const noexcept { return slots_; }
  bool eager() const noexcept { return eager_; }
  bool uses_eager_slot() const noexcept {
    return call_->kind == CollectiveKind::kAlltoall || !segments_.empty() || (eager_ && !inline_);
  }

  // Puts this rank's data, or the offsets where it lies, into its slots. REQUIRES: the slots of this number are free.
  void post();
  // Allgather, alltoall: what this rank gives to itself. Peers may be reading `in` meanwhile.
  void copy_own_block();
  // Eager: computes the result. REQUIRES: all headers are there; so do the functions below.
  void finish_eager();

  // Plans the rounds; next_round is the group's first unused round, which it advances. An error: the ranks' tables of
  // an alltoall differ.
  Status plan(std::uint64_t& next_round);
  std::uint64_t first_round() const noexcept { return first_round_; }  // among all rounds of the group
  std::uint64_t rounds() const noexcept { return rounds_; }
  bool staged() const noexcept { return staged_; }  // some data goes through the rings
  bool uses_peers() const noexcept { return uses_peers_; }
  // The peer reads or writes this rank's buffers: they are not the caller's again before it has processed all rounds.
  bool lent_to(int peer) const noexcept { return all_use_mine_ || fills(peer, group_.rank()); }
  // This rank processes a round after the peer has packed it.
  bool takes_from(int peer) const noexcept { return !broadcast() || peer == call_->root; }
  bool broadcast() const noexcept { return call_->kind == CollectiveKind::kBroadcast; }

  // Calls visit(data, bytes) for each output into which peers may write from the time this rank has posted.
  template <class Visit>
  void each_output_of_peers(Visit&& visit) const {
    if (eager_ || !(call_->kind == CollectiveKind::kAllreduce || (broadcast() && group_.rank() != call_->root))) return;
    const std::uint32_t flags = header(group_.rank()).posted.flags;
    if ((flags & kOutShared) != 0) visit(call_->out, call_->out_count * element_);
    if ((flags & kSegments) == 0) return;
    for (const Segment& segment : call_->segments) visit(segment.out, segment.count * element_);
  }

  void pack(std::uint64_t round);
  void process(std::uint64_t round);
  void copy_out(std::uint64_t round);

 private:
  const std::byte* in() const noexcept { return static_cast<const std::byte*>(call_->in); }
  std::byte* out() const noexcept { return static_cast<std::byte*>(call_->out); }
  HeaderSlot& header(int rank) const noexcept { return slots_.header(rank); }
  const std::byte* payload(int rank) const noexcept { return inline_ ? header(rank).payload : slots_.eager(rank); }
  std::byte* chunk(int rank, std::uint64_t round) const noexcept {
    return slots_.chunk(rank, first_round_ + round, call_->kind != CollectiveKind::kAllreduce);
  }
  bool has_source(int rank) const noexcept { return !broadcast() || rank == call_->root; }
  // Whether `rank` is the root of a broadcast and writes a part of it to `peer`, so that both copy.
  bool fills(int rank, int peer) const noexcept {
    return broadcast() && !staged_ && rounds_ != 0 && rank == call_->root && peer != rank &&
           (header(peer).posted.flags & kOutShared) != 0;
  }
  std::size_t offset_of(std::span<const std::size_t> counts, int rank) const noexcept;  // bytes

  void post_offsets(Posted& posted) const;
  void post_segments(Posted& posted) const;
  void post_alltoall(Posted& posted) const;
  Status check_alltoall() const;
  void plan_copies();
  void read_in(std::byte* to, std::size_t begin, std::size_t end) const;
  void write_out(const std::byte* from, std::size_t begin, std::size_t end) const;
  void reduce_slice(std::uint64_t round);
  void reduce_segments(std::uint64_t round);
  void reduce_block(std::uint64_t round);
  void copy_blocks(std::uint64_t round);
  void copy_broadcast(std::uint64_t round);
  void copy_result(std::byte* to, const std::byte* from, std::size_t count) const;
  void reduce(std::size_t count);

  const Group& group_;
  OwnedCollective call_;
  std::size_t element_ = 1;  // bytes
  SegmentList segments_;     // of an allreduce, instead of in() and out()
  Slots slots_;
  bool eager_ = false;
  bool inline_ = false;
  bool segments_direct_ = false;  // all segments of all ranks lie in arenas and have the same counts
  bool staged_ = false;
  bool uses_peers_ = false;
  bool all_use_mine_ = false;             // every peer reads or writes this rank's buffers
  bool past_cache_ = false;               // copies for the caller are stored past the cache
  std::vector<const std::byte*> inputs_;  // by rank; null: through its ring
  std::vector<std::byte*> outputs_;       // by rank; null: through its ring
  std::size_t per_round_ = 0;             // elements of a round, or of one block in a round
  std::uint64_t first_round_ = 0;
  std::uint64_t rounds_ = 0;
  std::vector<const void*> reduce_ins_;
  std::vector<void*> reduce_outs_;
};

}  // namespace xoe::shm

// One collective on its way: a state machine that advances as far as the peers allow and never blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/shm/group.h"
#include "backend/shm/pieces.h"
#include "backend/shm/plan.h"
#include "backend/shm/slots.h"

namespace xoe::shm {

class Operation {
 public:
  explicit Operation(const Group& group);

  // Takes over `collective` (counts and name are copied) as operation `number`; reusable after done().
  void begin(const Collective& collective, std::uint32_t number);
  // The same for one that was posted already with `flag` (see one_shot.h).
  void begin_posted(const Collective& collective, std::uint32_t number, std::uint64_t flag);

  std::uint32_t number() const noexcept { return number_; }
  bool uses_eager_slot() const noexcept {
    return kind_ == CollectiveKind::kAlltoall || !pieces_.empty() || (eager_ && !inline_);
  }

  // Shows this rank's part to the peers. REQUIRES: the slots of this number are free.
  void post();
  bool posted() const noexcept { return posted_; }

  // What advance() may touch of the communicator-wide round count.
  struct Rounds {
    std::uint64_t next = 0;  // the first round of the next operation that has any
  };
  // Goes on as far as possible, and no further once the group has failed. An Error is a mismatch between ranks.
  Status advance(Rounds& rounds);
  bool done() const noexcept { return done_; }
  // This rank has nothing left to do here but to wait for the peers to finish: a later operation may go on.
  bool drained() const noexcept { return drained_; }

  // The ranks without which it cannot go on now.
  std::vector<int> waiting_for() const;
  // "allreduce #17 (conv1.weight)"
  std::string title() const;

 private:
  HeaderSlot& header(int rank) const noexcept { return slots_.header(rank); }
  std::byte* eager_slot(int rank) const noexcept { return slots_.eager(rank); }
  const std::byte* eager_payload(int rank) const noexcept { return inline_ ? header(rank).payload : eager_slot(rank); }
  std::byte* chunk(int rank, std::uint64_t round) const noexcept {
    return slots_.chunk(rank, base_ + round, kind_ != CollectiveKind::kAllreduce);
  }

  bool headers_ready(Status& status);
  Status mismatch(int rank) const;
  Status check_alltoall() const;
  Status plan_rounds(Rounds& rounds);
  void plan_reduction();
  void plan_copies();
  void copy_own_part();
  void finish_eager();

  bool chunk_free(int rank) const;
  bool can_pack() const;
  bool can_process() const;
  bool can_copy_out() const;
  void pack(std::uint64_t round);
  void process(std::uint64_t round);
  void copy_out(std::uint64_t round);
  void reduce_range(std::uint64_t round);
  void post_pieces(Posted& posted) const;
  void reduce_pieces(std::uint64_t round);
  void copy_in(std::byte* to, std::size_t begin, std::size_t end) const;
  void copy_result(const std::byte* from, std::size_t begin, std::size_t end) const;
  void reduce_piece(std::uint64_t round);
  void copy_from_peers(std::uint64_t round);
  bool peers_reached(std::atomic<std::uint64_t> RankBlock::*counter, std::uint64_t value) const;

  bool has_source(int rank) const noexcept;
  bool is_reduction() const noexcept {
    return kind_ == CollectiveKind::kAllreduce || kind_ == CollectiveKind::kReduceScatter;
  }
  std::size_t table_offset(std::span<const std::size_t> counts, int rank) const noexcept;

  const Group& group_;

  // The call.
  CollectiveKind kind_{};
  DType dtype_{};
  ReduceOp op_{};
  int root_ = 0;
  std::size_t element_ = 1;  // bytes
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::size_t in_count_ = 0;
  std::size_t out_count_ = 0;
  Pieces pieces_;  // of an allreduce, instead of in_ and out_
  std::vector<std::size_t> send_counts_;
  std::vector<std::size_t> recv_counts_;
  std::string name_;

  // How it goes.
  std::uint32_t number_ = 0;
  Slots slots_;
  std::uint64_t flag_ = 0;
  bool eager_ = false;
  bool inline_ = false;
  bool posted_ = false;
  bool planned_ = false;
  bool drained_ = false;
  bool done_ = true;
  int headers_seen_ = 0;
  bool in_direct_ = false;      // all inputs lie in arenas
  bool pieces_direct_ = false;  // so do all arrays of all ranks, and they are cut alike
  bool staged_ = false;         // something goes through the ring: an input, or an allreduce's output
  bool peers_use_mine_ = false;
  bool uses_peers_ = false;               // it reads or writes the peers' buffers
  std::vector<const std::byte*> inputs_;  // by rank; null: through its ring
  std::vector<std::byte*> outputs_;       // by rank; null: through its ring
  std::size_t per_round_ = 0;             // elements a round, or a round and piece
  std::uint64_t base_ = 0;
  std::uint64_t rounds_ = 0;
  std::uint64_t packed_ = 0;
  std::uint64_t processed_ = 0;
  std::uint64_t copied_ = 0;
  std::vector<const void*> reduce_ins_;
  std::vector<void*> reduce_outs_;
};

}  // namespace xoe::shm

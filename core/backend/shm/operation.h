// One collective in progress: a state machine that advances as far as the peers allow and never blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/backend/shm/group.h"
#include "core/backend/shm/operation_data.h"

namespace xoe::shm {

class Operation {
 public:
  explicit Operation(const Group& group) : group_(group), data_(group) {}

  // Copies `collective` as operation `number`; reusable after done().
  void begin(const Collective& collective, std::uint32_t number);
  // As begin(), for an operation that was already posted with `flag` (see one_shot.h).
  void begin_posted(const Collective& collective, std::uint32_t number, std::uint64_t flag);

  std::uint32_t number() const noexcept { return number_; }
  bool uses_eager_slot() const noexcept { return data_.uses_eager_slot(); }

  // Shows this rank's arguments and data to the peers. REQUIRES: the slots of this number are free.
  void post();
  // Advances without blocking, and not at all once the group has failed. next_round: the group's first unused round. An
  // Error is a mismatch between ranks.
  Status advance(std::uint64_t& next_round);
  bool done() const noexcept { return done_; }
  // Only the peers still have work to do here: a later operation may advance.
  bool drained() const noexcept { return drained_; }

  // The ranks that it waits for now.
  std::vector<int> waiting_for() const;
  // Calls visit(data, bytes) for each output of this rank into which peers may be writing.
  template <class Visit>
  void each_output_of_peers(Visit&& visit) const {
    if (posted_) data_.each_output_of_peers(visit);
  }
  // "allreduce #17 (conv1.weight)"
  std::string title() const { return title_of(data_.call(), number_ - kBeforeFirst); }

 private:
  HeaderSlot& header(int rank) const noexcept { return data_.slots().header(rank); }
  bool headers_ready(Status& status);
  Status mismatch(int rank) const;
  bool chunk_free(int rank) const;
  bool can_pack() const;
  bool can_process() const;
  bool can_copy_out() const;
  bool advance_round();
  template <class Holds>
  bool all_peers(Holds&& holds) const;
  std::vector<int> waiting_in_rounds() const;
  bool stops_root(int rank) const;
  bool processed(int rank, std::uint64_t rounds) const;  // counted over all operations

  const Group& group_;
  OperationData data_;
  std::uint32_t number_ = 0;
  std::uint64_t flag_ = 0;
  int headers_seen_ = 0;
  bool posted_ = false;
  bool planned_ = false;
  bool drained_ = false;
  bool done_ = true;
  // Rounds of this operation; RankBlock has the same counters over all operations.
  std::uint64_t packed_ = 0;
  std::uint64_t processed_ = 0;
  std::uint64_t copied_ = 0;
};

}  // namespace xoe::shm

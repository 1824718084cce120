#include "core/backend/shm/operation.h"

#include "core/base/error.h"

namespace xoe::shm {

void Operation::begin(const Collective& collective, std::uint32_t number) {
  data_.assign(collective, number);
  number_ = number;
  posted_ = planned_ = drained_ = done_ = false;
  headers_seen_ = 0;
  packed_ = processed_ = copied_ = 0;
}

void Operation::begin_posted(const Collective& collective, std::uint32_t number, std::uint64_t flag) {
  begin(collective, number);
  flag_ = flag;
  posted_ = true;
}

void Operation::post() {
  posted_ = true;
  Fingerprint& fingerprint = data_.slots().fingerprint(group_.rank());
  fill(fingerprint, data_.call());
  flag_ = (static_cast<std::uint64_t>(number_) << 32) | digest(fingerprint);
  data_.post();
  header(group_.rank()).flag.store(flag_, std::memory_order_release);
  group_.wakeups().publish();
  data_.copy_own_block();
}

bool Operation::headers_ready(Status& status) {
  for (; headers_seen_ < group_.size(); ++headers_seen_) {
    const std::uint64_t flag = header(headers_seen_).flag.load(std::memory_order_acquire);
    if (flag == flag_) [[likely]]
      continue;
    if (static_cast<std::uint32_t>(flag >> 32) == number_) status = mismatch(headers_seen_);
    return false;
  }
  return true;
}

Status Operation::mismatch(int rank) const {
  const int me = group_.rank();
  return failure(Code::kInvalidArgument, "{}: ranks disagree: {} called {}, {} called {}", title(), group_.who(me),
                 to_string(data_.slots().fingerprint(me)), group_.who(rank),
                 to_string(data_.slots().fingerprint(rank)));
}

Status Operation::advance(std::uint64_t& next_round) {
  if (done_ || !posted_) return {};
  Status status;
  if (!headers_ready(status)) return status;
  if (data_.eager() || group_.size() == 1) {
    data_.finish_eager();
    drained_ = done_ = true;
    return {};
  }
  if (!planned_) {
    planned_ = true;
    if (status = data_.plan(next_round); !status)
      return failure(status.error().code(), "{}: {}", title(), status.error().message());
  }
  while (!drained_) {
    const bool moved = advance_round();
    drained_ = copied_ == data_.rounds();
    if (!moved && !drained_) return {};
  }
  const std::uint64_t end = data_.first_round() + data_.rounds();
  // A later operation's rounds count on from here, also where this one had nothing to stage.
  if (packed_ != data_.rounds()) {
    packed_ = data_.rounds();
    group_.own().packed.store(end, std::memory_order_release);
    group_.wakeups().publish();
  }
  done_ = all_peers([&](int r) { return !data_.lent_to(r) || processed(r, end); });
  return {};
}

// Takes each step of a round that may run now; true if any could.
bool Operation::advance_round() {
  RankBlock& mine = group_.own();
  bool moved = false;
  if (can_pack()) {
    data_.pack(packed_++);
    mine.packed.store(data_.first_round() + packed_, std::memory_order_release);
    group_.wakeups().publish();
    moved = true;
  }
  if (can_process()) {
    if (data_.uses_peers() && !group_.enter_buffers()) return false;
    data_.process(processed_++);
    if (data_.uses_peers()) group_.leave_buffers();
    mine.processed.store(data_.first_round() + processed_, std::memory_order_release);
    group_.wakeups().publish();
    moved = true;
  }
  if (can_copy_out()) {
    data_.copy_out(copied_++);
    mine.copied.store(data_.first_round() + copied_, std::memory_order_release);
    if (data_.staged()) group_.wakeups().publish();
    moved = true;
  }
  return moved;
}

// The next chunk to pack held a chunk that `rank` wrote or read kRingSlots rounds ago.
bool Operation::chunk_free(int rank) const {
  if (!data_.staged() || packed_ == data_.rounds()) return true;
  const std::uint64_t round = data_.first_round() + packed_;
  return round < kRingSlots || group_.block(rank).copied.load(std::memory_order_acquire) + kRingSlots > round;
}

template <class Holds>
bool Operation::all_peers(Holds&& holds) const {
  for (int r = 0; r < group_.size(); ++r)
    if (r != group_.rank() && !holds(r)) return false;
  return true;
}

bool Operation::processed(int rank, std::uint64_t rounds) const {
  return group_.block(rank).processed.load(std::memory_order_acquire) >= rounds;
}

bool Operation::can_pack() const {
  // Without staging the headers suffice.
  if (!data_.staged() || packed_ == data_.rounds() || packed_ >= copied_ + kRingSlots) return false;
  return all_peers([&](int r) { return chunk_free(r); });
}

bool Operation::can_process() const {
  if (processed_ == data_.rounds()) return false;
  if (!data_.staged()) return true;
  if (processed_ == packed_) return false;
  const std::uint64_t needed = data_.first_round() + processed_ + 1;
  return all_peers(
      [&](int r) { return !data_.takes_from(r) || group_.block(r).packed.load(std::memory_order_acquire) >= needed; });
}

bool Operation::can_copy_out() const {
  if (copied_ == processed_) return false;
  if (data_.call().kind != CollectiveKind::kAllreduce || !data_.staged()) return true;
  return all_peers([&](int r) { return processed(r, data_.first_round() + copied_ + 1); });
}

std::vector<int> Operation::waiting_for() const {
  if (posted_ && planned_) return waiting_in_rounds();
  std::vector<int> ranks;
  for (int r = 0; r < group_.size(); ++r) {
    if (r == group_.rank()) continue;
    if (posted_) {
      if (header(r).flag.load(std::memory_order_acquire) != flag_) ranks.push_back(r);
    } else {
      // The slots of an earlier operation are still in use by the ranks that have not completed it.
      const auto completed = group_.block(r).done.load(std::memory_order_acquire);
      if (static_cast<std::int32_t>(number_ - completed) > kEagerSlots) ranks.push_back(r);
    }
  }
  return ranks;
}

std::vector<int> Operation::waiting_in_rounds() const {
  const std::uint64_t end = data_.first_round() + data_.rounds();
  const std::uint64_t needed = drained_ ? end : data_.first_round() + copied_ + 1;
  std::vector<int> late, stopping_root;
  for (int r = 0; r < group_.size(); ++r) {
    if (r == group_.rank()) continue;
    const bool matters = drained_ ? data_.lent_to(r) : data_.takes_from(r);
    const bool in_the_way = !data_.broadcast() && !chunk_free(r);
    if ((matters && !processed(r, needed)) || in_the_way) late.push_back(r);
    if (data_.broadcast() && stops_root(r)) stopping_root.push_back(r);
  }
  return stopping_root.empty() ? late : stopping_root;
}

// Staged broadcast: `rank` has not yet fetched what lies in the chunk that the root packs next.
bool Operation::stops_root(int rank) const {
  if (!data_.staged()) return false;
  const std::uint64_t next = group_.block(data_.call().root).packed.load(std::memory_order_acquire);
  const std::uint64_t copied = group_.block(rank).copied.load(std::memory_order_acquire);
  return next < data_.first_round() + data_.rounds() && copied + kRingSlots <= next;
}

}  // namespace xoe::shm

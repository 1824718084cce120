// A small blocking allreduce with no other operation in flight: post, wait for the peers, reduce. It is an Operation
// without the state machine, in the same slots and with the same flags, and becomes an Operation when a peer is late.
#pragma once

#include <cstring>

#include "backend/fingerprint.h"
#include "backend/shm/group.h"
#include "backend/shm/partition.h"
#include "backend/shm/slots.h"
#include "reduce/reduce.h"

namespace xoe::shm {

inline bool fits_one_shot(const Collective& collective, int size) noexcept {
  return collective.kind == CollectiveKind::kAllreduce && collective.segments.empty() && size > 1 &&
         collective.in_count * dtype_size(collective.dtype) <= eager_reduce_limit(size);
}

class OneShot {
 public:
  OneShot(const Group& group, const Collective& collective, std::uint32_t number)
      : group_(group),
        collective_(collective),
        bytes_(collective.in_count * dtype_size(collective.dtype)),
        number_(number),
        slots_(group, number) {}

  std::uint64_t flag() const noexcept { return flag_; }

  void post() noexcept {
    Fingerprint& mine = slots_.fingerprint(group_.rank());
    fill(mine, collective_);
    flag_ = static_cast<std::uint64_t>(number_) << 32 | digest(mine);
    if (bytes_ != 0) std::memcpy(payload(group_.rank()), collective_.in, bytes_);
    header(group_.rank()).flag.store(flag_, std::memory_order_release);
    group_.wakeups().publish();
  }

  bool all_there() noexcept {
    for (; seen_ < group_.size(); ++seen_)
      if (header(seen_).flag.load(std::memory_order_acquire) != flag_) return false;
    return true;
  }

  // The rank that this one waits for has posted this number with other arguments.
  bool disagrees() const noexcept {
    const std::uint64_t flag = header(seen_).flag.load(std::memory_order_acquire);
    return flag != flag_ && static_cast<std::uint32_t>(flag >> 32) == number_;
  }

  // REQUIRES: all_there().
  void finish() const noexcept {
    if (bytes_ == 0) return;
    const void* ins[kMaxRanks];
    for (int r = 0; r < group_.size(); ++r) ins[r] = r == group_.rank() ? collective_.in : payload(r);
    void* const out[] = {collective_.out};
    reduce::reduce_into(out, {ins, static_cast<std::size_t>(group_.size())}, collective_.in_count, collective_.dtype,
                        collective_.op);
  }

 private:
  HeaderSlot& header(int rank) const noexcept { return slots_.header(rank); }
  std::byte* payload(int rank) const noexcept {
    return bytes_ <= kInlineBytes ? header(rank).payload : slots_.eager(rank);
  }

  const Group& group_;
  const Collective& collective_;
  std::size_t bytes_;
  std::uint32_t number_;
  Slots slots_;
  std::uint64_t flag_ = 0;
  int seen_ = 0;
};

}  // namespace xoe::shm

// A small blocking allreduce or a barrier, with no other operation in flight: post, wait for the peers, reduce. It is
// an Operation without the state machine, in the same slots and with the same flags, and becomes an Operation when a
// peer is late.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "core/backend/fingerprint.h"
#include "core/backend/shm/group.h"
#include "core/backend/shm/partition.h"
#include "core/backend/shm/slots.h"
#include "core/reduce/reduce.h"

namespace xoe::shm {

inline bool fits_one_shot(const Collective& collective, int size) noexcept {
  if (size == 1) return false;
  if (collective.kind == CollectiveKind::kBarrier) return true;
  return collective.kind == CollectiveKind::kAllreduce && collective.segments.empty() &&
         collective.in_count * dtype_size(collective.dtype) <= eager_reduce_limit(size);
}

// Most programs make the same small call again and again. So one object makes all of a queue's, and remembers what
// follows from the arguments: the digest, which headers already show them, and where the slots lie.
class OneShot {
 public:
  explicit OneShot(const Group& group)
      : group_(group), headers_(index(group.size())), eager_(index(group.size())), ins_(index(group.size())) {}

  // For calls without a name, from here to finish(). REQUIRES: fits_one_shot() for that call.
  void prepare(CollectiveKind kind, DType dtype, ReduceOp op, std::size_t count) noexcept {
    const std::uint64_t call = 1 | static_cast<std::uint64_t>(kind) << 8 | static_cast<std::uint64_t>(dtype) << 16 |
                               static_cast<std::uint64_t>(op) << 24 | static_cast<std::uint64_t>(count) << 32;
    if (call == call_) [[likely]]
      return;
    take({.kind = kind, .dtype = dtype, .op = op, .in_count = count, .out_count = count});
    call_ = call;
  }
  void prepare(const Collective& collective) noexcept {
    if (collective.options.name.empty())
      return prepare(collective.kind, collective.dtype, collective.op, collective.in_count);
    take(collective);
    call_ = kNamed;
  }

  std::uint64_t flag() const noexcept { return flag_; }
  // How many operations its slots take turns with.
  std::size_t slot_count() const noexcept { return bytes_ <= kInlineBytes ? kHeaderSlots : kEagerSlots; }

  // REQUIRES: the slots of this number are free.
  void post(std::uint32_t number, const void* in) noexcept {
    find_slots(number);
    const std::size_t at = number % kHeaderSlots;
    if (call_ != shown_[at] || call_ == kNamed) [[unlikely]] {
      group_.own().fingerprints[at] = fingerprint_;
      shown_[at] = call_;
    }
    copy_in(payload(group_.rank()), in);
    flag_ = static_cast<std::uint64_t>(number) << 32 | digest_;
    header(group_.rank()).flag.store(flag_, std::memory_order_release);
    seen_ = 0;
    group_.wakeups().publish();
    // The next call's header was last written by another rank. It comes over while this one waits.
    __builtin_prefetch(headers_[index(group_.rank())] + (number + 1) % kHeaderSlots, 1);
  }
  // Another operation has this number, so its header shows other arguments.
  void forget(std::uint32_t number) noexcept { shown_[number % kHeaderSlots] = 0; }

  bool all_there() noexcept {
    for (; seen_ < group_.size(); ++seen_)
      if (header(seen_).flag.load(std::memory_order_acquire) != flag_) return false;
    return true;
  }

  // The rank that this one waits for has posted this number with other arguments.
  bool disagrees() const noexcept {
    const std::uint64_t flag = header(seen_).flag.load(std::memory_order_acquire);
    return flag != flag_ && flag >> 32 == flag_ >> 32;
  }

  // REQUIRES: all_there().
  void finish(const void* in, void* out) noexcept {
    if (bytes_ == 0) return;
    for (int r = 0; r < group_.size(); ++r) ins_[index(r)] = r == group_.rank() ? in : payload(r);
    reduce_(out, ins_, count_);
  }

 private:
  static constexpr std::uint64_t kNamed = 2;

  void take(const Collective& collective) noexcept {
    fill(fingerprint_, collective);
    digest_ = digest(fingerprint_);
    reduce_ = reduce::reducer_for(collective.dtype, collective.op);
    count_ = collective.in_count;
    bytes_ = count_ * dtype_size(collective.dtype);
  }

  // The slots move on once in a while: see Slots.
  void find_slots(std::uint32_t number) noexcept {
    constexpr std::uint32_t kStay = std::min(kHeaderSlots, kEagerSlots);
    at_header_ = number % kHeaderSlots;
    at_eager_ = number % kEagerSlots;
    if (number / kStay == found_for_) [[likely]]
      return;
    found_for_ = number / kStay;
    const Slots slots(group_, number);
    for (int r = 0; r < group_.size(); ++r) {
      headers_[index(r)] = &slots.header(r) - at_header_;
      eager_[index(r)] = slots.eager(r) - at_eager_ * kEagerBytes;
    }
  }
  HeaderSlot& header(int rank) const noexcept { return headers_[index(rank)][at_header_]; }
  std::byte* payload(int rank) const noexcept {
    return bytes_ <= kInlineBytes ? header(rank).payload : eager_[index(rank)] + at_eager_ * kEagerBytes;
  }

  void copy_in(std::byte* to, const void* in) const noexcept {
    switch (bytes_) {
      case 0: return;
      case 4: std::memcpy(to, in, 4); return;
      case 8: std::memcpy(to, in, 8); return;
      default: std::memcpy(to, in, bytes_);
    }
  }

  const Group& group_;
  // What follows from the arguments.
  std::uint64_t call_ = 0;  // which ones; 0: none yet
  Fingerprint fingerprint_ = {};
  std::uint32_t digest_ = 0;
  reduce::Reducer reduce_ = nullptr;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  std::array<std::uint64_t, kHeaderSlots> shown_ = {};  // the call whose fingerprint lies in each slot
  // What follows from the number.
  std::uint32_t found_for_ = ~std::uint32_t{0};
  std::size_t at_header_ = 0;
  std::size_t at_eager_ = 0;
  std::vector<HeaderSlot*> headers_;  // by rank
  std::vector<std::byte*> eager_;     // by rank

  std::uint64_t flag_ = 0;
  int seen_ = 0;
  std::vector<const void*> ins_;
};

}  // namespace xoe::shm

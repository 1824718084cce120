// Where the ranks' parts of an operation lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/shm/group.h"

namespace xoe::shm {

// A slot that is used again moves on to the next rank's block. A rank so never writes to lines that it wrote last and
// others have read since: taking back such a line (Owned, in MOESI) costs 20 to 80 ns on the AMD processors that we
// measured, several times as much as taking over one that somebody else wrote (docs/decisions/0010).
class Slots {
 public:
  explicit Slots(const Group& group) noexcept : group_(&group) {}
  Slots(const Group& group, std::uint32_t number) noexcept
      : group_(&group),
        number_(number),
        header_turn_(turn(group, number / kHeaderSlots)),
        eager_turn_(turn(group, number / kEagerSlots)) {}

  HeaderSlot& header(int rank) const noexcept { return block(rank, header_turn_).headers[number_ % kHeaderSlots]; }
  Description& description(int rank) const noexcept { return group_->block(rank).descriptions[number_ % kHeaderSlots]; }
  std::byte* eager(int rank) const noexcept { return block(rank, eager_turn_).eager[number_ % kEagerSlots]; }

  // The chunk in which `rank` shows its input of a round. One that others only read moves on like the slots above; one
  // into which they also write (allreduce) changes its writer anyway, and stays.
  std::byte* chunk(int rank, std::uint64_t round, bool moves_on) const noexcept {
    const int turns = moves_on ? turn(*group_, round / kRingSlots) : 0;
    return block(rank, turns).ring[round % kRingSlots];
  }

 private:
  static int turn(const Group& group, std::uint64_t uses) noexcept {
    return static_cast<int>(uses % static_cast<unsigned>(group.size()));
  }
  RankBlock& block(int rank, int turns) const noexcept {
    const int place = rank + turns;
    return group_->block(place < group_->size() ? place : place - group_->size());
  }

  const Group* group_;
  std::uint32_t number_ = 0;
  int header_turn_ = 0;
  int eager_turn_ = 0;
};

}  // namespace xoe::shm

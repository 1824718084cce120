// The slots of shared memory that an operation uses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/backend/shm/group.h"

namespace xoe::shm {

// A reused slot moves on to the next rank's block. A rank therefore never writes to lines that it wrote last and others
// have read since: taking back such a line (Owned, in MOESI) costs 20 to 80 ns on the AMD processors that we measured,
// several times as much as taking over a line that another rank wrote (docs/decisions/0010).
class Slots {
 public:
  explicit Slots(const Group& group) noexcept : group_(&group) {}
  Slots(const Group& group, std::uint32_t number) noexcept
      : group_(&group),
        number_(number),
        header_turn_(turn(group, number / kHeaderSlots)),
        eager_turn_(turn(group, number / kEagerSlots)) {}

  HeaderSlot& header(int rank) const noexcept { return block(rank, header_turn_).headers[number_ % kHeaderSlots]; }
  Fingerprint& fingerprint(int rank) const noexcept { return group_->block(rank).fingerprints[number_ % kHeaderSlots]; }
  std::byte* eager(int rank) const noexcept { return block(rank, eager_turn_).eager[number_ % kEagerSlots]; }

  // The chunk in which `rank` stages its input of a round. moves_on: the peers only read it, and it moves on like the
  // other slots. Otherwise the peers write into it too (allreduce), which changes its writer anyway, and it stays.
  std::byte* chunk(int rank, std::uint64_t round, bool moves_on) const noexcept {
    const int turns = moves_on ? turn(*group_, round / kRingSlots) : 0;
    return block(rank, turns).ring[round % kRingSlots];
  }

 private:
  static int turn(const Group& group, std::uint64_t uses) noexcept {
    return static_cast<int>(uses % static_cast<unsigned>(group.size()));
  }
  RankBlock& block(int rank, int turns) const noexcept {
    const int shifted = rank + turns;
    return group_->block(shifted < group_->size() ? shifted : shifted - group_->size());
  }

  const Group* group_;
  std::uint32_t number_ = 0;
  int header_turn_ = 0;
  int eager_turn_ = 0;
};

}  // namespace xoe::shm

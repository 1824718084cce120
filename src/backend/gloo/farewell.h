// Why a member goes, in the 8 bytes that it sends at last.
#pragma once

#include <cstdint>

namespace xoe::gloo {

enum class Farewell : std::uint8_t {
  kLeft = 1,  // its part is done
  kLost,      // it lost a peer
  kTimeout,   // it waited too long for a peer
  kAborted,   // it was told to stop
};

constexpr std::uint64_t make_farewell(Farewell why, int rank) noexcept {
  return static_cast<std::uint64_t>(why) | static_cast<std::uint64_t>(static_cast<std::uint32_t>(rank)) << 32;
}
constexpr Farewell farewell_kind(std::uint64_t farewell) noexcept { return static_cast<Farewell>(farewell & 0xff); }
constexpr int farewell_rank(std::uint64_t farewell) noexcept { return static_cast<int>(farewell >> 32); }

// Slots of the mesh itself; those of collectives have the highest bit.
inline constexpr std::uint64_t kAlarmSlot = 1, kFarewellSlot = 2, kMeetSlot = 3;

}  // namespace xoe::gloo

// Why a member closes its connections: the 8 bytes that it sends last.
#pragma once

#include <cstdint>

namespace xoe::gloo {

enum class CloseReason : std::uint8_t {
  kLeft = 1,  // its work is done
  kLost,      // it lost a peer
  kTimeout,   // it waited too long for a peer
  kAborted,   // abort() was called
};

constexpr std::uint64_t make_close_notice(CloseReason reason, int rank) noexcept {
  return static_cast<std::uint64_t>(reason) | static_cast<std::uint64_t>(static_cast<std::uint32_t>(rank)) << 32;
}
constexpr CloseReason reason_of(std::uint64_t notice) noexcept { return static_cast<CloseReason>(notice & 0xff); }
constexpr int rank_of(std::uint64_t notice) noexcept { return static_cast<int>(notice >> 32); }

}  // namespace xoe::gloo

// Sockets that cannot be accepted for want of descriptors or memory.
#pragma once

#include <cerrno>
#include <chrono>

namespace xoe {

// Tells whether this error of accept() is one of them. The client stays in the queue and the listener stays readable,
// so a loop pauses for kNoRoomPause before it tries again.
inline bool is_no_room(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}
inline constexpr std::chrono::milliseconds kNoRoomPause(100);

}  // namespace xoe

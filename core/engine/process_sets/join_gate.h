// Keeps submissions out while this rank has joined and the others have not.
#pragma once

#include <atomic>
#include <cstdint>

namespace xoe::engine {

// Any thread.
class JoinGate {
 public:
  // Every enter() is followed by leave(). False: this rank has joined.
  bool enter() { return (state_.fetch_add(1, std::memory_order_seq_cst) & kJoined) == 0; }
  void leave() { state_.fetch_sub(1, std::memory_order_seq_cst); }
  // Closes the gate and waits until all others have left. False: it is closed already.
  bool close();
  void open() { state_.fetch_and(~kJoined, std::memory_order_seq_cst); }

 private:
  static constexpr std::uint64_t kJoined = std::uint64_t{1} << 63;
  std::atomic<std::uint64_t> state_{0};  // threads inside, and kJoined
};

}  // namespace xoe::engine

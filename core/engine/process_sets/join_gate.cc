#include "core/engine/process_sets/join_gate.h"

#include <thread>

namespace xoe::engine {

bool JoinGate::close() {
  if ((state_.fetch_or(kJoined, std::memory_order_seq_cst) & kJoined) != 0) return false;
  while ((state_.load(std::memory_order_seq_cst) & ~kJoined) != 0) std::this_thread::yield();
  return true;
}

}  // namespace xoe::engine

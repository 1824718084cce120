// Lets one thread at a time make progress on the process sets of a rank.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace xoe::engine {

// A Lockable, for std::lock_guard and std::unique_lock. Any thread.
class ProgressLock {
 public:
  void lock() {
    mutex_.lock();
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    return true;
  }
  void unlock() {
    owner_.store(std::thread::id(), std::memory_order_relaxed);
    mutex_.unlock();
  }
  // This thread makes progress now: it is in a callback.
  bool held_by_this_thread() const noexcept {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
};

}  // namespace xoe::engine

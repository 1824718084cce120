// The threads that serve requests, one each.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace xoe::pool {

// Starts a thread when none is idle, up to a number of them; further requests wait until one is.
class ConnectionThreads {
 public:
  explicit ConnectionThreads(int most) : most_(static_cast<std::size_t>(most)) {}
  void enqueue(std::function<void()> serve);
  // After all requests have been served.
  void shutdown();

 private:
  void work();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> waiting_;
  std::size_t idle_ = 0;
  bool ending_ = false;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace xoe::pool

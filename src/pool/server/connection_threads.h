// The threads that serve connections, one each.
#pragma once

#include <httplib.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace xoe::pool {

// Starts a thread when none is idle, up to a number of them; further connections wait until one is.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(int most) : most_(static_cast<std::size_t>(most)) {}
  void enqueue(std::function<void()> serve) override;
  // After all connections have been served.
  void shutdown() override;

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

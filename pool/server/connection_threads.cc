#include "pool/server/connection_threads.h"

#include <system_error>
#include <utility>

namespace xoe::pool {

void ConnectionThreads::enqueue(std::function<void()> serve) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(serve));
  if (waiting_.size() > idle_ && threads_.size() < most_) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // The system gives no more: those that there are serve it.
      if (threads_.empty()) throw;
    }
  }
  arrived_.notify_one();
}

void ConnectionThreads::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  arrived_.notify_all();
  threads_.clear();
}

void ConnectionThreads::work() {
  for (;;) {
    std::function<void()> serve;
    {
      std::unique_lock lock(mutex_);
      ++idle_;
      arrived_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      --idle_;
      if (waiting_.empty()) return;
      serve = std::move(waiting_.front());
      waiting_.pop_front();
    }
    serve();
  }
}

}  // namespace xoe::pool

// A group's started collectives, which run in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/backend/collective.h"

namespace xoe::hierarchical {

// Collectives run one after the other: in the caller's thread while none is pending, else in the queue's own, so that a
// started one proceeds by itself.
class OperationQueue {
 public:
  // execute: runs one collective. completed: called by the queue's thread after each.
  OperationQueue(std::function<Status(const Collective&)> execute, std::function<void()> completed)
      : execute_(std::move(execute)), completed_(std::move(completed)) {}

  Status run(const Collective& collective);
  Result<std::shared_ptr<Handle::Work>> start(const Collective& collective);
  // Calls `abandon` if collectives are pending, and waits until they have ended.
  void stop(const std::function<void()>& abandon);
  // In a forked child: the thread is the parent's.
  void detach() {
    if (worker_.joinable()) worker_.detach();
  }

 private:
  class Task;
  void work();

  std::function<Status(const Collective&)> execute_;
  std::function<void()> completed_;
  std::mutex mutex_;
  std::condition_variable queued_;
  std::deque<std::shared_ptr<Task>> queue_;  // the first is being executed
  bool stopping_ = false;
  std::jthread worker_;
};

}  // namespace xoe::hierarchical

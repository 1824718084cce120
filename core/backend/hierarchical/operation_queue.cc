#include "core/backend/hierarchical/operation_queue.h"

#include <future>
#include <system_error>

#include "core/base/error.h"

namespace xoe::hierarchical {

class OperationQueue::Task final : public Handle::Work {
 public:
  explicit Task(const Collective& collective) { collective_.assign(collective); }
  const Collective& collective() const noexcept { return *collective_; }
  void finish(Status status) { status_.set_value(std::move(status)); }

  Result<bool> test() override {
    if (finished_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    if (const Status& status = finished_.get(); !status) return failure(status.error());
    return true;
  }
  Status wait() override { return finished_.get(); }

 private:
  OwnedCollective collective_;
  std::promise<Status> status_;
  std::shared_future<Status> finished_ = status_.get_future().share();
};

Status OperationQueue::run(const Collective& collective) {
  {
    const std::unique_lock lock(mutex_);
    if (queue_.empty()) return execute_(collective);  // the group's thread rule: no other thread starts one meanwhile
  }
  XOE_ASSIGN(const auto work, start(collective));
  return work->wait();
}

Result<std::shared_ptr<Handle::Work>> OperationQueue::start(const Collective& collective) {
  auto task = std::make_shared<Task>(collective);
  const std::lock_guard lock(mutex_);
  if (!worker_.joinable()) {
    try {
      worker_ = std::jthread([this] { work(); });
    } catch (const std::system_error&) {
      return failure(Code::kResourceExhausted, "cannot start a thread (limit of processes?)");
    }
  }
  queue_.push_back(task);
  queued_.notify_all();
  return std::shared_ptr<Handle::Work>(std::move(task));
}

void OperationQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto task = queue_.front();
    lock.unlock();
    Status status = execute_(task->collective());
    lock.lock();
    queue_.pop_front();  // before the caller knows: it may run the next collective itself
    task->finish(std::move(status));
    completed_();
  }
}

void OperationQueue::stop(const std::function<void()>& abandon) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    queued_.notify_all();
    if (!queue_.empty()) abandon();
  }
  if (worker_.joinable()) worker_.join();
}

}  // namespace xoe::hierarchical

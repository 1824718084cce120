// A collective of several steps, written as straight-line code: a coroutine that suspends until the wire has moved.
#pragma once

#include <coroutine>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "xoe/communicator.h"
#include "xoe/status.h"

namespace xoe::engine {

// `const Status s = co_await comm.start_allreduce(...)` waits for a started collective; `co_await other_task(...)` runs
// a task within a task. A task begins with its first advance(), in the caller's thread, and ends with `co_return
// status`. Exceptions that leave it become its error. Destroying a task that is not done abandons it.
class [[nodiscard]] Task {
  // The innermost suspended coroutine of a task, and the collective that it waits for.
  struct Position {
    std::coroutine_handle<> leaf;
    Handle pending;
    Status result;  // of `pending`, once it is done
  };

  struct StepAwaiter {
    Result<Handle> started;
    Position& position;
    bool await_ready() const noexcept { return !started; }
    void await_suspend(std::coroutine_handle<> here) {
      position.leaf = here;
      position.pending = *started;
    }
    Status await_resume() {
      if (!started) return failure(std::move(started).error());
      return std::move(position.result);
    }
  };

 public:
  struct promise_type;
  using Coroutine = std::coroutine_handle<promise_type>;

  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(Coroutine here) const noexcept {
      const auto parent = here.promise().parent;
      return parent ? parent : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  struct NestedAwaiter {
    Coroutine child;
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(Coroutine here) noexcept {
      child.promise().parent = here;
      child.promise().position = here.promise().position;
      return child;
    }
    Status await_resume() { return std::move(child.promise().result); }
  };

  struct promise_type {
    Status result;
    std::coroutine_handle<> parent;
    Position* position = nullptr;

    Task get_return_object() { return Task(Coroutine::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    FinalAwaiter final_suspend() const noexcept { return {}; }
    void return_value(Status status) { result = std::move(status); }
    void unhandled_exception() noexcept {
      try {
        throw;
      } catch (const std::bad_alloc&) {
        result = failure(Code::kResourceExhausted, "no memory left");
      } catch (const std::exception& e) {
        result = failure(Code::kInternal, std::string(e.what()));
      } catch (...) {
        result = failure(Code::kInternal, "an exception of unknown type");
      }
    }
    StepAwaiter await_transform(Result<Handle> started) { return {std::move(started), *position}; }
    NestedAwaiter await_transform(const Task& task) { return {task.coroutine_}; }
  };

  Task() = default;
  Task(Task&& other) noexcept
      : coroutine_(std::exchange(other.coroutine_, {})), position_(std::move(other.position_)) {}
  Task& operator=(Task other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    std::swap(position_, other.position_);
    return *this;
  }
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  // Continues as far as possible without blocking; true once it is done.
  bool advance() {
    if (!position_) {
      position_ = std::make_unique<Position>();
      coroutine_.promise().position = position_.get();
      coroutine_.resume();
    }
    while (!coroutine_.done()) {
      Result<bool> tested = position_->pending.test();
      if (tested && !*tested) return false;
      position_->result = tested ? Status() : Status(failure(std::move(tested).error()));
      position_->pending = Handle();
      std::exchange(position_->leaf, {}).resume();
    }
    return true;
  }

  // REQUIRES: advance() returned true.
  Status result() const { return coroutine_.promise().result; }

 private:
  explicit Task(Coroutine coroutine) : coroutine_(coroutine) {}

  Coroutine coroutine_;
  std::unique_ptr<Position> position_;  // of an outermost task that has begun
};

}  // namespace xoe::engine

// Ends the task with the error of the awaited collective or task, if it has one.
// Not for `a ? b : c`: GCC 12 destroys the temporary of such an expression twice.
#define XOE_CO_TRY(awaited)                                                            \
  do {                                                                                 \
    if (::xoe::Status xoe_co_status = co_await (awaited); !xoe_co_status) [[unlikely]] \
      co_return xoe_co_status;                                                         \
  } while (false)

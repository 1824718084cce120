// The types that describe a collective: the ranks around a process, options, arrays and handles.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "xoe/status.h"

namespace xoe {

// The position of a process in its job. `local` counts the ranks of its host, `cross` the hosts that have a rank with
// the same local rank.
struct Topology {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
};

// Options of one operation.
struct OpOptions {
  // Appears in errors: `allreduce #17 (conv1.weight): ...`. Ranks that pass different names disagree, which is an
  // error.
  std::string_view name = {};
  // How long to wait for peers, counted from the first wait() or test(). Unset: the communicator's default
  // (XOE_TIMEOUT, 30 minutes).
  std::optional<std::chrono::nanoseconds> timeout = {};
};

// One of several arrays that are reduced as if they were one. in == out: in place.
struct Segment {
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;  // elements
};

// A collective that was started and not yet waited for. It advances when a thread calls test() or wait() on any handle
// of its communicator, or starts or runs a collective there; over several hosts it advances by itself. Its buffers stay
// in use until it is done. The thread rule is that of its communicator. Dropping the handle does not cancel the
// collective: later calls of the communicator complete it. These calls and Communicator::progress() also report
// a peer that died: wait() returns with the error within a second, and a thread that calls none of them gets the error
// from the next call.
class Handle {
 public:
  // A backend's part of a started collective.
  class Work {
   public:
    virtual ~Work() = default;
    virtual Result<bool> test() = 0;  // true: done
    virtual Status wait() = 0;
  };

  Handle() = default;
  explicit Handle(std::shared_ptr<Work> work) : work_(std::move(work)) {}

  bool valid() const noexcept { return work_ != nullptr; }
  // Advances without blocking. True when done, false while peers are missing.
  Result<bool> test() { return work_->test(); }
  // Blocks until the collective is done, has failed, or is past its timeout.
  Status wait() { return work_->wait(); }

 private:
  std::shared_ptr<Work> work_;
};

}  // namespace xoe

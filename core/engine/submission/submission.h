// One operation that this rank has submitted, until it has completed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/stall_timer.h"
#include "core/engine/negotiate/readiness_table.h"
#include "core/engine/profiler/profiler.h"
#include "core/engine/submission/submitted_operation.h"
#include "xoe/engine.h"
#include "xoe/status.h"

namespace xoe::engine {

using EngineClock = std::chrono::steady_clock;
using TimePoint = EngineClock::time_point;

// How far the collectives of one operation on GPU memory have come: all of their work is in the GPU's queue, or not
// yet.
class Launched {
 public:
  // slices: so many calls of add() complete it.
  explicit Launched(std::size_t slices) : left_(slices) {}

  // NCCL's thread: the work of one slice is in the queue, before `event`.
  void add(const std::shared_ptr<const void>& event) {
    const std::lock_guard lock(mutex_);
    if (events_.empty() || events_.back() != event) events_.push_back(event);
    if (--left_ == 0) all_.store(true, std::memory_order_release);
  }
  bool all() const noexcept { return all_.load(std::memory_order_acquire); }
  // REQUIRES: all().
  const std::vector<std::shared_ptr<const void>>& events() const noexcept { return events_; }

 private:
  std::mutex mutex_;
  std::size_t left_;
  std::vector<std::shared_ptr<const void>> events_;
  std::atomic<bool> all_{false};
};

// How far a submission has come. Of the thread that submits, until it is in flight; then of the one that makes
// progress.
struct SubmissionProgress {
  // Its places in the readiness table and in InFlightTable.
  int entry = -1;
  std::uint32_t version = 0;                // of the entry, when it was found
  std::atomic<std::uint8_t> generation{0};  // its number in the sealed log
  std::uint64_t slot = 0;                   // its value in InFlightTable; 0: not known yet
  std::shared_ptr<Submission> self;         // while no other part of the engine owns it

  TimePoint submitted;
  TimePoint agreed;
  StallTimer stall_timer;      // with ranks that have not submitted it
  StageRange range;            // until its first batch starts
  std::size_t parts_left = 0;  // collectives that carry a part of it
  Status part_status;          // the first error of a part

  bool traced_start = false;
  std::uint32_t traced_name = 0;  // its name's id in a timeline,
  std::uint32_t traced_in = 0;    // this one; 0: none
};

// The results that a caller gets of a submission, besides its status.
struct SubmissionOutcome {
  std::vector<Output> outputs;
  std::vector<std::int64_t> received_splits;
  int last_joined = -1;
  ProcessSetId process_set = kWorldSet;  // that was added
};

class SubmissionPool;  // submission_pool.h

class Submission {
 public:
  // See SubmittedOperation::make().
  static Result<std::unique_ptr<Submission>> make(const Request& request, std::string name, int rank, int ranks);
  explicit Submission(SubmittedOperation operation) : operation_(std::move(operation)) {}
  // Turns one that has completed into the submission of `request`. False: it is of no use any more.
  bool renew(const Request& request, int rank, int ranks);
  // Frees results, and what the caller has lent, once it has completed.
  void clear() noexcept;

  // It does not change from the submit to the completion.
  const SubmittedOperation& operation() const noexcept { return operation_; }
  // Before the submit:
  void set_name(std::string name) { operation_.name = std::move(name); }
  void set_queue_same_name() { operation_.queue_same_name = true; }
  void set_mark(std::shared_ptr<const void> mark) { operation_.mark = std::move(mark); }

  // The parts that ranks compare, and show if they differ.
  ReadinessTable::Arrival arrival() const;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  // Runs the callback, then releases waiters. Called once.
  void complete(Status status) noexcept;
  const Status& status() const noexcept { return status_; }  // once done()

  // Memory for an output, from the caller, the allocator or the engine. If the allocator gives none, sets
  // allocator_refused() and takes memory of the engine so that the peers can complete; null for GPU memory.
  std::byte* make_output(std::size_t index, std::vector<std::int64_t> shape, DType dtype);
  bool has_callback() const noexcept { return has_callback_; }
  bool allocator_refused() const noexcept { return allocator_refused_; }

  SubmissionProgress progress;
  SubmissionOutcome outcome;           // readable once done
  std::unique_ptr<Launched> launched;  // of GPU memory, if its caller may wait in a stream
  std::weak_ptr<Runtime> runtime;

 private:
  friend class SubmissionPool;
  // The pool's part.
  struct Kept {
    std::shared_ptr<SubmissionPool> home;
    std::uint64_t hash = 0;  // of the name
    alignas(std::max_align_t) std::byte counts[64];
  };

  SubmittedOperation operation_;
  std::atomic<bool> done_{false};
  Status status_;
  OutputAllocator allocator_;
  Callback callback_;
  std::vector<std::unique_ptr<std::byte[]>> owned_;
  bool allocator_refused_ = false;
  bool has_callback_ = false;  // also after it was called
  Kept kept_;
};

}  // namespace xoe::engine

// One operation that this rank has submitted, until it has completed.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/stall_timer.h"
#include "core/engine/negotiate/readiness_table.h"
#include "core/engine/profiler/profiler.h"
#include "xoe/engine.h"
#include "xoe/status.h"

namespace xoe::engine {

struct TensorCopy {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::size_t count = 0;

  std::size_t bytes() const noexcept { return count * dtype_size(dtype); }
  std::size_t rows() const noexcept { return shape.empty() ? 1 : static_cast<std::size_t>(shape[0]); }
  std::size_t row_elements() const noexcept;
};

using EngineClock = std::chrono::steady_clock;
using TimePoint = EngineClock::time_point;

// Does the operation have a root?
constexpr bool has_root(OpKind kind) { return kind == OpKind::kBroadcast || kind == OpKind::kBroadcastBytes; }

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

class SubmissionPool;  // submission_pool.h

class Submission {
 public:
  // Checks everything that one rank can check alone. rank, ranks: of the process set.
  static Result<std::unique_ptr<Submission>> make(const Request& request, std::string name, int rank, int ranks);
  // Turns one that has completed into the submission of `request`. False: the two differ in more than their memory, or
  // that is wrong; the submission is of no use then.
  bool renew(const Request& request, int rank, int ranks);
  // May renew() succeed?
  bool renewable() const noexcept;
  // Frees results, and what the caller has lent, once it has completed.
  void clear() noexcept;
  // An operation of the engine itself. All ranks must give the same argument.
  static std::shared_ptr<Submission> make_internal(InternalKind kind, std::string name,
                                                   std::vector<std::int64_t> argument);
  // For an operation that this rank takes part in without data, because it has joined.
  static std::shared_ptr<Submission> make_placeholder(const OpDescriptor& op, std::uint64_t signature,
                                                      std::span<const TensorSize> sizes, int entry);

  // The parts that ranks compare, and show if they differ.
  ReadinessTable::Arrival arrival() const;
  std::string describe() const;
  // "allreduce 'conv1.weight'"
  std::string title() const;
  // Bytes of this rank's tensors.
  std::size_t bytes() const noexcept;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  // Runs the callback, then releases waiters. Called once.
  void complete(Status status) noexcept;
  const Status& status() const noexcept { return status_; }  // once done()

  // Memory for an output, from the caller, the allocator or the engine. If the allocator gives none, sets
  // allocator_refused() and takes memory of the engine so that the peers can complete; null for GPU memory.
  std::byte* make_output(std::size_t index, std::vector<std::int64_t> shape, DType dtype);
  bool has_callback() const noexcept { return has_callback_; }
  bool allocator_refused() const noexcept { return allocator_refused_; }

  // Set at submit.
  std::string name;
  OpDescriptor op;
  std::vector<TensorCopy> tensors;
  std::vector<TensorSize> sizes;
  std::vector<std::int64_t> splits;
  std::vector<std::int64_t> dense_shape;
  std::vector<std::int64_t> argument;  // of an internal operation
  std::string detail;                  // what else ranks compare
  std::shared_ptr<const void> memory;  // owns that of the tensors
  std::uint64_t signature = 0;
  bool placeholder = false;
  bool takes_turns = false;  // a name in flight is no error: this submission enters after the one that has it
  std::chrono::nanoseconds timeout{0};  // with ranks that have not submitted it; 0: the engine's limit
  std::shared_ptr<const void> mark;     // of GPU memory: the work in its stream at the submit
  std::unique_ptr<Launched> launched;   // of GPU memory, if its caller may wait in a stream
  EngineClock::time_point submitted;
  StageRange range;  // until its first batch starts
  std::weak_ptr<Runtime> runtime;

  // Set by the thread that makes progress.
  std::atomic<std::uint8_t> generation{0};  // its number in the sealed log
  std::shared_ptr<Submission> self;         // while no other part of the engine owns it
  int entry = -1;
  std::uint32_t version = 0;  // of the entry, when it was found
  std::uint64_t slot = 0;     // its value in InFlightTable; 0: not known yet
  EngineClock::time_point agreed;
  std::size_t parts_left = 0;  // collectives that carry a part of it
  Status part_status;          // the first error of a part
  StallTimer stall_timer;      // with ranks that have not submitted it
  bool traced_start = false;
  std::uint32_t traced_name = 0;  // its name's id in a timeline,
  std::uint32_t traced_in = 0;    // this one; 0: none

  // Results, readable once done.
  std::vector<Output> outputs;
  std::vector<std::int64_t> received_splits;
  int last_joined = -1;
  ProcessSetId process_set = kWorldSet;

 private:
  friend class SubmissionPool;
  // The pool's part.
  struct Kept {
    std::shared_ptr<SubmissionPool> home;
    std::uint64_t hash = 0;  // of the name
    alignas(std::max_align_t) std::byte counts[64];
  };

  std::atomic<bool> done_{false};
  Status status_;
  OpSpec asked_;  // of the request: `op` lacks what its kind ignores
  OutputAllocator allocator_;
  Callback callback_;
  std::vector<std::unique_ptr<std::byte[]>> owned_;
  bool allocator_refused_ = false;
  bool has_callback_ = false;  // also after it was called
  Kept kept_;
};

}  // namespace xoe::engine

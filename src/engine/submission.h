// One operation that this rank has submitted, until it is done.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/negotiate/readiness_table.h"
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

class Submission {
 public:
  // Checks all that this rank can check alone. `ranks`: size of the process set, `rank`: this one in it.
  static Result<std::shared_ptr<Submission>> make(const Request& request, std::string name, int rank, int ranks);
  // add and remove of process sets: all ranks agree on `argument`.
  static std::shared_ptr<Submission> make_internal(InternalKind kind, std::string name,
                                                   std::vector<std::int64_t> argument);

  // What the ranks compare, and show if it differs.
  ReadinessTable::Arrival arrival() const;
  std::string describe() const;
  // "allreduce 'conv1.weight'"
  std::string title() const;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  // Runs the callback, then lets waiters go. Called once.
  void complete(Status status) noexcept;
  const Status& status() const noexcept { return status_; }  // once done()

  // Memory for an output: the caller's, the allocator's or the engine's. Sets allocator_refused()
  // if the allocator gives none, and then gives memory of its own so that the peers can go on; null on a GPU.
  std::byte* make_output(std::size_t index, std::vector<std::int64_t> shape, DType dtype);
  bool has_callback() const noexcept { return has_callback_; }
  bool allocator_refused() const noexcept { return allocator_refused_; }

  // Set at submit.
  std::string name;
  OpDescriptor op;
  std::vector<TensorCopy> tensors;
  std::vector<TensorSize> sizes;
  std::vector<std::int64_t> splits;
  std::vector<std::int64_t> argument;  // of an internal operation
  std::uint64_t signature = 0;
  std::shared_ptr<const void> mark;  // of GPU memory: what its stream had to do at the submit
  EngineClock::time_point submitted;
  std::weak_ptr<Core> core;

  // Set on the way, by the thread that drives.
  std::atomic<std::uint8_t> generation{0};  // as the log calls it
  std::shared_ptr<Submission> self;         // while nobody else in the engine holds it
  int entry = -1;
  EngineClock::time_point agreed;
  std::size_t parts_left = 0;  // collectives that carry a part of it
  Status part_status;          // the first error of a part
  bool stall_reported = false;
  bool traced_start = false;

  // Results, readable once done.
  std::vector<Output> outputs;
  std::vector<std::int64_t> received_splits;
  int last_joined = -1;
  ProcessSetId process_set = kWorldSet;

 private:
  std::atomic<bool> done_{false};
  Status status_;
  OutputAllocator allocator_;
  Callback callback_;
  std::vector<std::unique_ptr<std::byte[]>> owned_;
  bool allocator_refused_ = false;
  bool has_callback_ = false;  // also once it was called
};

}  // namespace xoe::engine

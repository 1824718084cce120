// Operations that all ranks have agreed on, and the batches in which they run.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/backend/gpu_transport.h"
#include "core/engine/execute/batch/task.h"
#include "core/engine/submission/submission.h"

namespace xoe::engine {

// Operations that all ranks have agreed to run now, in order.
using ReadyOps = std::vector<std::shared_ptr<Submission>>;

// One tensor of an operation within a batch.
struct TensorSlice {
  Submission* submission = nullptr;
  std::size_t tensor = 0;

  const SubmittedOperation& operation() const noexcept { return submission->operation(); }
  const TensorCopy& copy() const { return operation().tensors[tensor]; }  // REQUIRES: !operation().placeholder
  std::size_t count() const noexcept { return operation().sizes[tensor].count; }
};

// One collective, or one operation of several steps, from its plan to its end.
struct Batch {
  // The plan.
  bool fused = false;          // its slices travel as one; otherwise `whole` runs on its own
  OpSpec op = {};              // of all its tensors. Fused: host memory has no factors here, and GPU memory both of
                               // them, in prescale if NCCL can apply them
  DType wire = DType::kUint8;  // element type on the wire
  std::size_t bytes = 0;       // on the wire
  std::vector<TensorSlice> slices = {};
  Submission* whole = nullptr;

  // The run.
  std::shared_ptr<const ReadyOps> ready = {};  // owns the submissions, of all batches between two seals
  std::string title = {};
  std::string codec_key = {};  // differs also where only the cut ends of two names do
  std::uint64_t position = 0;  // of the sealed log, before its first operation
  // It starts no further collective, so the next batch may start: all ranks start collectives in one order.
  bool may_follow = false;
  std::optional<GpuTransport> gpu_transport = {};                // of GPU memory, once it is known
  TimePoint started = {}, packed = {}, reduced = {}, done = {};  // equal where a step does not exist
  StageRange range = {};
  Task task = {};

  std::size_t tensors() const noexcept { return fused ? slices.size() : 1; }
  bool internal() const noexcept { return first().operation().op.internal != InternalKind::kNone; }
  Submission& first() const noexcept { return fused ? *slices.front().submission : *whole; }
  // The stages of the run, for those who note them as they pass.
  void note_packed() {
    packed = EngineClock::now();
    range.next(ProfiledStage::kReduce, title, bytes);
  }
  void note_reduced(bool unpacks) {
    reduced = EngineClock::now();
    if (unpacks) range.next(ProfiledStage::kUnpack, title, bytes);
  }
  // act(Submission&), once for each slice or for the whole operation.
  template <class Act>
  void each_submission(Act&& act) const {
    for (const TensorSlice& slice : slices) act(*slice.submission);
    if (!fused) act(*whole);
  }
};

}  // namespace xoe::engine

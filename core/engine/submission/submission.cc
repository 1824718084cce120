#include "core/engine/submission/submission.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace xoe::engine {

Result<std::unique_ptr<Submission>> Submission::make(const Request& request, std::string name, int rank, int ranks) {
  XOE_ASSIGN(auto operation, SubmittedOperation::make(request, std::move(name), rank, ranks));
  auto submission = std::make_unique<Submission>(std::move(operation));
  submission->allocator_ = request.allocator;
  submission->callback_ = request.callback;
  submission->has_callback_ = static_cast<bool>(request.callback);
  return submission;
}

bool Submission::renew(const Request& request, int rank, int ranks) {
  if (!operation_.renew(request, rank, ranks)) return false;
  if (request.allocator) allocator_ = request.allocator;
  if (request.callback) callback_ = request.callback;
  has_callback_ = static_cast<bool>(request.callback);
  return true;
}

void Submission::clear() noexcept {
  operation_.memory.reset();
  operation_.mark.reset();
  progress.range.end();
  if (!progress.part_status) progress.part_status = Status();
  progress.stall_timer = {};
  progress.parts_left = 0;
  progress.traced_start = false;
  outcome.outputs.clear();
  outcome.received_splits.clear();
  launched.reset();
  allocator_ = nullptr;
  callback_ = nullptr;
  owned_.clear();
  if (!status_) status_ = Status();
  allocator_refused_ = false;
  done_.store(false, std::memory_order_relaxed);
}

ReadinessTable::Arrival Submission::arrival() const {
  return {operation_.signature, progress.submitted.time_since_epoch().count(), operation_.op, operation_.sizes,
          [this] { return operation_.describe(); }};
}

void Submission::complete(Status status) noexcept {
  progress.range.end();
  status_ = std::move(status);
  if (callback_) {
    try {
      callback_(status_);
    } catch (...) {
      if (status_) status_ = failure(Code::kInternal, operation_.title() + ": its callback threw an exception");
    }
    callback_ = {};  // destroys its captures before waiters return
  }
  done_.store(true, std::memory_order_release);
}

std::byte* Submission::make_output(std::size_t index, std::vector<std::int64_t> shape, DType dtype) {
  std::size_t bytes = dtype_size(dtype);
  for (const std::int64_t dimension : shape) bytes *= static_cast<std::size_t>(dimension);
  std::byte* data = index < operation_.tensors.size() ? operation_.tensors[index].out : nullptr;
  if (data == nullptr && allocator_ && !allocator_refused_) {
    try {
      data = static_cast<std::byte*>(allocator_(index, shape, dtype));
    } catch (...) {
      data = nullptr;
    }
    allocator_refused_ = data == nullptr && bytes != 0;
  }
  if (data == nullptr && !operation_.op.gpu) {
    owned_.push_back(std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(bytes, 1)));
    data = owned_.back().get();
  }
  if (outcome.outputs.size() <= index) outcome.outputs.resize(index + 1);
  outcome.outputs[index] = {data, dtype, std::move(shape)};
  return data;
}

}  // namespace xoe::engine

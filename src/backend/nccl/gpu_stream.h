// A stream of our own on this rank's GPU, in order with the streams of those who call.
#pragma once

#include <cstddef>
#include <memory>

#include "backend/nccl/libraries.h"
#include "xoe/status.h"

namespace xoe::nccl {

class Queue {
 public:
  // word_bytes: of each of the two buffers for what comes from host memory. Nothing is allocated later: an allocation
  // may wait for all that runs on the GPU. REQUIRES, here and below: the thread's device is this rank's.
  static Result<std::unique_ptr<Queue>> make(std::shared_ptr<const Libraries> libraries, int device,
                                             std::size_t word_bytes);
  ~Queue();

  CudaStream stream() const noexcept { return stream_; }
  // What comes next waits for all that is in `producer`.
  Status follow(CudaStream producer);
  // What comes next waits for an event that was recorded elsewhere.
  Status follow_mark(const void* event);
  // What comes next in `consumer` waits for all that is in this queue.
  Status lead(CudaStream consumer);
  // Marks what done() looks at.
  Status mark();
  // kNotReady: not yet.
  CudaError done() const { return libraries_->cuda.event_query(done_); }

  // Host words: `given` goes to the GPU with give(), and `taken` comes from there with take().
  std::size_t word_bytes() const noexcept { return word_bytes_; }
  std::byte* given() const noexcept { return host_; }
  const std::byte* taken() const noexcept { return host_ + word_bytes_; }
  std::byte* in() const noexcept { return device_; }
  std::byte* out() const noexcept { return device_ + word_bytes_; }
  Status give(std::size_t bytes);
  Status take(std::size_t bytes);

 private:
  Queue(std::shared_ptr<const Libraries> libraries, int index, std::size_t word_bytes)
      : libraries_(std::move(libraries)), index_(index), word_bytes_(word_bytes) {}
  Status allocate();

  const std::shared_ptr<const Libraries> libraries_;
  const int index_;
  const std::size_t word_bytes_;
  CudaStream stream_ = nullptr;
  CudaEvent ready_ = nullptr, done_ = nullptr;
  std::byte* device_ = nullptr;
  std::byte* host_ = nullptr;
};

}  // namespace xoe::nccl

// A stream of our own on this rank's GPU, ordered with the callers' streams, and its staging buffers.
#pragma once

#include <cstddef>
#include <memory>

#include "core/backend/nccl/libraries.h"
#include "xoe/status.h"

namespace xoe::nccl {

class GpuStream {
 public:
  // staging_bytes: size of each staging buffer. Nothing is allocated later, because an allocation may wait for all work
  // on the GPU. REQUIRES, here and below: the thread's device is this rank's.
  static Result<std::unique_ptr<GpuStream>> make(std::shared_ptr<const Libraries> libraries, int device,
                                                 std::size_t staging_bytes);
  ~GpuStream();

  CudaStream handle() const noexcept { return stream_; }
  // Later work waits for all work that is in `producer` now.
  Status wait_for_stream(CudaStream producer);
  // Later work waits for an event that was recorded elsewhere.
  Status wait_for_event(const void* event);
  // Later work in `consumer` waits for all work that is in this stream now.
  Status make_wait(CudaStream consumer);
  // Records the event that query_done() queries.
  Status record_done();
  // kNotReady: the work before record_done() still runs.
  CudaError query_done() const noexcept;

  // Staging of small host arrays: copy_in() copies host_in to device_in, copy_out() device_out to host_out.
  std::size_t staging_bytes() const noexcept { return staging_bytes_; }
  std::byte* host_in() const noexcept { return host_; }
  const std::byte* host_out() const noexcept { return host_ + staging_bytes_; }
  std::byte* device_in() const noexcept { return device_; }
  std::byte* device_out() const noexcept { return device_ + staging_bytes_; }
  Status copy_in(std::size_t bytes);
  Status copy_out(std::size_t bytes);

 private:
  GpuStream(std::shared_ptr<const Libraries> libraries, int index, std::size_t staging_bytes)
      : libraries_(std::move(libraries)), index_(index), staging_bytes_(staging_bytes) {}
  Status allocate();

  const std::shared_ptr<const Libraries> libraries_;
  const int index_;
  const std::size_t staging_bytes_;
  CudaStream stream_ = nullptr;
  CudaEvent ready_ = nullptr, done_ = nullptr;
  std::byte* device_ = nullptr;
  std::byte* host_ = nullptr;
};

}  // namespace xoe::nccl

#include "core/backend/nccl/staging.h"

#include <algorithm>
#include <utility>

#include "core/backend/nccl/device.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::nccl {
namespace {

using Ring = std::shared_ptr<const std::function<void()>>;

// On a thread of CUDA's. It is not called when the GPU has failed: then done() tells.
void ring_and_forget(void* data) {
  const std::unique_ptr<Ring> ring(static_cast<Ring*>(data));
  (**ring)();
}

}  // namespace

Staging::Staging(std::shared_ptr<const Libraries> libraries, std::function<void()> ring)
    : libraries_(std::move(libraries)), ring_(std::make_shared<const std::function<void()>>(std::move(ring))) {}

Result<std::unique_ptr<Staging>> Staging::make(std::shared_ptr<const Libraries> libraries, std::size_t slots,
                                               std::size_t slot_bytes, std::function<void()> ring) {
  std::unique_ptr<Staging> made(new Staging(std::move(libraries), std::move(ring)));
  if (const Status status = made->allocate(slots, slots * slot_bytes); !status)
    return failure(status.error().code(), "cannot pin {} of host memory: {}", human_bytes(slots * slot_bytes),
                   status.error().message());
  return made;
}

Status Staging::allocate(std::size_t slots, std::size_t bytes) {
  const CudaApi& cuda = libraries_->cuda;
  for (Lane& lane : lanes_) {
    XOE_CUDA(cuda, stream_create_with_flags, &lane.stream, kCudaStreamNonBlocking);
    for (std::size_t slot = 0; slot < slots; ++slot) {
      CudaEvent event = nullptr;
      XOE_CUDA(cuda, event_create_with_flags, &event, kCudaEventDisableTiming);
      lane.done.push_back(event);
    }
  }
  void* memory = nullptr;
  XOE_CUDA(cuda, host_alloc, &memory, bytes, 0);
  memory_ = static_cast<std::byte*>(memory);
  return {};
}

Staging::~Staging() {
  const CudaApi& cuda = libraries_->cuda;
  bool idle = true;
  for (const Lane& lane : lanes_) {
    for (const CudaEvent event : lane.done) {
      idle = idle && query_event(cuda, event) != CudaError::kNotReady;
      (void)cuda.event_destroy(event);
    }
    if (lane.stream != nullptr) (void)cuda.stream_destroy(lane.stream);
  }
  if (memory_ != nullptr && idle) (void)cuda.free_host(memory_);
}

Status Staging::start(net::GpuDirection direction, std::size_t slot, std::span<const net::GpuCopy> copies,
                      std::span<const void* const> after) {
  const CudaApi& cuda = libraries_->cuda;
  const Lane& own = lane(direction);
  for (const void* mark : after)
    XOE_CUDA(cuda, stream_wait_event, own.stream, static_cast<CudaEvent>(const_cast<void*>(mark)), 0);
  if (direction == net::GpuDirection::kToHost)
    XOE_CUDA(cuda, stream_wait_event, own.stream, lane(net::GpuDirection::kToGpu).done[slot], 0);
  for (const net::GpuCopy& copy : copies)
    XOE_CUDA(cuda, memcpy_async, copy.to, copy.from, copy.bytes, CudaCopy::kDefault, own.stream);
  XOE_CUDA(cuda, event_record, own.done[slot], own.stream);
  auto ring = std::make_unique<Ring>(ring_);
  XOE_CUDA(cuda, launch_host_func, own.stream, ring_and_forget, ring.get());
  (void)ring.release();  // NOLINT(bugprone-unused-return-value): ring_and_forget() owns it now
  return {};
}

Result<bool> Staging::done(net::GpuDirection direction, std::size_t slot) {
  const CudaError state = query_event(libraries_->cuda, lane(direction).done[slot]);
  if (state == CudaError::kNotReady) return false;
  XOE_TRY(cuda_status(libraries_->cuda, state, "event_query"));
  return true;
}

}  // namespace xoe::nccl

#include "core/backend/nccl/gpu_stream.h"

#include "core/backend/nccl/device.h"
#include "core/base/error.h"

namespace xoe::nccl {

Result<std::unique_ptr<GpuStream>> GpuStream::make(std::shared_ptr<const Libraries> libraries, int device,
                                                   std::size_t staging_bytes) {
  std::unique_ptr<GpuStream> made(new GpuStream(std::move(libraries), device, staging_bytes));
  XOE_TRY(made->allocate());
  return made;
}

Status GpuStream::allocate() {
  const CudaApi& cuda = libraries_->cuda;
  XOE_CUDA(cuda, stream_create_with_flags, &stream_, kCudaStreamNonBlocking);
  XOE_CUDA(cuda, event_create_with_flags, &ready_, kCudaEventDisableTiming);
  XOE_CUDA(cuda, event_create_with_flags, &done_, kCudaEventDisableTiming);
  void* memory = nullptr;
  XOE_CUDA(cuda, malloc, &memory, 2 * staging_bytes_);
  device_ = static_cast<std::byte*>(memory);
  XOE_CUDA(cuda, host_alloc, &memory, 2 * staging_bytes_, 0);
  host_ = static_cast<std::byte*>(memory);
  return {};
}

GpuStream::~GpuStream() {
  const CudaApi& cuda = libraries_->cuda;
  const DeviceScope scope(*libraries_, index_);
  if (device_ != nullptr) (void)cuda.free(device_);
  if (host_ != nullptr) (void)cuda.free_host(host_);
  if (ready_ != nullptr) (void)cuda.event_destroy(ready_);
  if (done_ != nullptr) (void)cuda.event_destroy(done_);
  if (stream_ != nullptr) (void)cuda.stream_destroy(stream_);
}

Status GpuStream::wait_for_stream(CudaStream producer) {
  const CudaApi& cuda = libraries_->cuda;
  XOE_CUDA(cuda, event_record, ready_, producer);
  XOE_CUDA(cuda, stream_wait_event, stream_, ready_, 0);
  return {};
}

Status GpuStream::wait_for_event(const void* event) {
  const auto recorded = static_cast<CudaEvent>(const_cast<void*>(event));
  XOE_CUDA(libraries_->cuda, stream_wait_event, stream_, recorded, 0);
  return {};
}

Status GpuStream::make_wait(CudaStream consumer) {
  XOE_TRY(record_done());
  XOE_CUDA(libraries_->cuda, stream_wait_event, consumer, done_, 0);
  return {};
}

Status GpuStream::record_done() {
  XOE_CUDA(libraries_->cuda, event_record, done_, stream_);
  return {};
}

CudaError GpuStream::query_done() const noexcept { return query_event(libraries_->cuda, done_); }

Status GpuStream::copy_in(std::size_t bytes) {
  XOE_CUDA(libraries_->cuda, memcpy_async, device_in(), host_in(), bytes, CudaCopy::kDefault, stream_);
  return {};
}

Status GpuStream::copy_out(std::size_t bytes) {
  XOE_CUDA(libraries_->cuda, memcpy_async, host_ + staging_bytes_, device_out(), bytes, CudaCopy::kDefault, stream_);
  return {};
}

}  // namespace xoe::nccl

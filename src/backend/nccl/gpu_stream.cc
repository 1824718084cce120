#include "backend/nccl/queue.h"

#include "backend/nccl/device.h"
#include "base/error.h"

namespace xoe::nccl {

Result<std::unique_ptr<Queue>> Queue::make(std::shared_ptr<const Libraries> libraries, int device,
                                           std::size_t word_bytes) {
  std::unique_ptr<Queue> queue(new Queue(std::move(libraries), device, word_bytes));
  XOE_TRY(queue->allocate());
  return queue;
}

Status Queue::allocate() {
  const CudaApi& cuda = libraries_->cuda;
  XOE_CUDA(cuda, stream_create_with_flags, &stream_, kCudaStreamNonBlocking);
  XOE_CUDA(cuda, event_create_with_flags, &ready_, kCudaEventDisableTiming);
  XOE_CUDA(cuda, event_create_with_flags, &done_, kCudaEventDisableTiming);
  void* memory = nullptr;
  XOE_CUDA(cuda, malloc, &memory, 2 * word_bytes_);
  device_ = static_cast<std::byte*>(memory);
  XOE_CUDA(cuda, host_alloc, &memory, 2 * word_bytes_, 0);
  host_ = static_cast<std::byte*>(memory);
  return {};
}

Queue::~Queue() {
  const CudaApi& cuda = libraries_->cuda;
  const OnDevice scope(cuda, index_);
  if (device_ != nullptr) (void)cuda.free(device_);
  if (host_ != nullptr) (void)cuda.free_host(host_);
  if (ready_ != nullptr) (void)cuda.event_destroy(ready_);
  if (done_ != nullptr) (void)cuda.event_destroy(done_);
  if (stream_ != nullptr) (void)cuda.stream_destroy(stream_);
}

Status Queue::follow(CudaStream producer) {
  const CudaApi& cuda = libraries_->cuda;
  XOE_CUDA(cuda, event_record, ready_, producer);
  XOE_CUDA(cuda, stream_wait_event, stream_, ready_, 0);
  return {};
}

Status Queue::follow_mark(const void* event) {
  const auto recorded = static_cast<CudaEvent>(const_cast<void*>(event));
  XOE_CUDA(libraries_->cuda, stream_wait_event, stream_, recorded, 0);
  return {};
}

Status Queue::lead(CudaStream consumer) {
  XOE_TRY(mark());
  XOE_CUDA(libraries_->cuda, stream_wait_event, consumer, done_, 0);
  return {};
}

Status Queue::mark() {
  XOE_CUDA(libraries_->cuda, event_record, done_, stream_);
  return {};
}

Status Queue::give(std::size_t bytes) {
  XOE_CUDA(libraries_->cuda, memcpy_async, in(), given(), bytes, CudaCopy::kDefault, stream_);
  return {};
}

Status Queue::take(std::size_t bytes) {
  XOE_CUDA(libraries_->cuda, memcpy_async, host_ + word_bytes_, out(), bytes, CudaCopy::kDefault, stream_);
  return {};
}

}  // namespace xoe::nccl

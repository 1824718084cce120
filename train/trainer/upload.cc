#include "train/trainer/upload.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace xoe::train {

Upload::Upload(c10::Device device) : device_(device) {
  if (!device.is_cpu()) stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

Batch Upload::start(const Batch& batch) const {
  if (batch.images.device() == device_) return batch;
  const c10::Stream current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  const auto copy = [&](const at::Tensor& tensor) {
    const at::Tensor placed = tensor.pin_memory().to(at::TensorOptions(device_), /*non_blocking=*/true);
    placed.record_stream(current);  // it was allocated for the other one
    return placed;
  };
  const c10::StreamGuard guard(*stream_);
  Batch placed{.images = copy(batch.images), .labels = copy(batch.labels)};
  c10::Event done(device_.type());
  done.record(*stream_);
  done.block(current);
  return placed;
}

}  // namespace xoe::train

// Batches on their way to the device that computes.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <optional>

#include "train/trainer/batches.h"

namespace xoe::train {

// Copies batches to a GPU through pinned memory and in a stream of its own, while the GPU computes. One thread.
class Upload {
 public:
  explicit Upload(c10::Device device);

  // Returns before the copy is done. Work that is queued on the device from now on waits for it; work under way does
  // not. A batch that is on the device already, as on the CPU, is returned as it is.
  Batch start(const Batch& batch) const;

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;  // none on the CPU
};

}  // namespace xoe::train

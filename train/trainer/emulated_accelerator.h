// Stands for an accelerator of a given speed, to measure communication with more ranks than there are processors.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "train/networks/models.h"

namespace xoe::train {

// Sleeps for as long as the accelerator would compute: a third of the time in the forward pass, two thirds in the
// backward pass. Meanwhile each parameter gets a gradient of its own size, from the last to the first at equal
// distances: the layers of most image networks take about as long as each other. Losses are 0, and gradients constant.
// Copying the gradients takes real time, which is part of the wait where it fits.
class EmulatedAccelerator {
 public:
  EmulatedAccelerator(const models::ImageModel& model, double images_per_s);

  void forward(std::int64_t images);
  void backward(std::int64_t images);

 private:
  std::chrono::nanoseconds time_of(std::int64_t images, double share) const;

  double images_per_s_;
  std::vector<at::Tensor> parameters_;  // in the order of backward
};

}  // namespace xoe::train

// An exponential moving average of a model's weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "train/networks/models.h"

namespace xoe::train {

// Of all parameters, and of the floating-point buffers: the running statistics of batch norm belong to the weights.
// Each rank has a whole average, also where the parameters are shared; parameters are the same on all ranks.
class WeightAverage {
 public:
  // Begins with the values that the model has.
  WeightAverage(models::ImageModel& model, double decay);

  // average += (1 - d) * (value - average), where d is `decay`, but at most (1 + step) / (10 + step): the first values
  // are soon forgotten, as in TensorFlow's ExponentialMovingAverage. step: of the optimizer, from 1.
  void update(std::int64_t step);

  // While it lives, the model's parameters and buffers are the averages; what is written to the buffers meanwhile is
  // lost. Other code must not run the optimizer.
  class InModel {
   public:
    explicit InModel(WeightAverage& average);
    ~InModel();
    InModel(const InModel&) = delete;
    InModel& operator=(const InModel&) = delete;

   private:
    WeightAverage& average_;
    std::vector<at::Tensor> parameters_;
    std::vector<at::Tensor> buffers_;
  };

  // In the model's order.
  const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  const std::vector<at::Tensor>& buffers() const noexcept { return buffers_; }

 private:
  models::ImageModel& model_;
  double decay_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;  // those of whole numbers: as they were
};

}  // namespace xoe::train

// Batch norm, over the batches of one rank or of all.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <functional>

namespace xoe::models {

// Adds a vector of float64 in host memory up over all ranks, in place. All ranks call it equally often, with equal
// sizes; it throws on errors.
using SumOverRanks = std::function<void(const at::Tensor& vector)>;

// torch::nn::BatchNorm2d, whose statistics in training are those of all ranks' images together once there is a
// SumOverRanks: one sum forward and one backward. Ranks may have different numbers of images. Gradients of the input
// are those of the sum of the ranks' losses; those of weight and bias are this rank's part of them. Of a single value
// per channel the running statistics are taken.
class BatchNormImpl : public ::torch::nn::BatchNorm2dImpl {
 public:
  // momentum: how far a step moves the running statistics towards its own.
  explicit BatchNormImpl(std::int64_t channels, double epsilon = 1e-5, double momentum = 0.1)
      : BatchNorm2dImpl(::torch::nn::BatchNorm2dOptions(channels).eps(epsilon).momentum(momentum)) {}

  at::Tensor forward(const at::Tensor& x);
  void set_sum(SumOverRanks sum) { sum_ = std::move(sum); }
  // Whether training leaves the running statistics as they are: for a pass that runs again.
  void keep_statistics(bool keep) { keeps_statistics_ = keep; }

 private:
  at::Tensor forward_over_ranks(const at::Tensor& x);

  SumOverRanks sum_;
  bool keeps_statistics_ = false;
};
// (TORCH_MODULE would look for its names in xoe::torch.)
class BatchNorm : public ::torch::nn::ModuleHolder<BatchNormImpl> {
 public:
  using ::torch::nn::ModuleHolder<BatchNormImpl>::ModuleHolder;
};

// Sets it for every batch norm of the network; how many there are.
int synchronize_batch_norms(const ::torch::nn::Module& network, const SumOverRanks& sum);

}  // namespace xoe::models

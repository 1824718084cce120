// Optimizers for large batches, which scale the step of each parameter: LARS and LAMB.
#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <tuple>
#include <vector>

namespace xoe::torch {

// Sums of squares, of a parameter and of its gradient (LARS) or update (LAMB).
struct LayerNorms {
  double parameter = 0;
  double update = 0;
};

// The step of a parameter is measure(), then apply(); where a parameter is divided among ranks, the norms of its parts
// are added up in between. One pass each over memory for dense float32 tensors of the host, on libtorch's intra-op
// threads (bits do not depend on their number); libtorch's operations for all others. Sparse gradients throw.
class LayerwiseOptimizer : public ::torch::optim::Optimizer {
 public:
  at::Tensor step(LossClosure closure = nullptr) override;

  // REQUIRES: `parameter` has a gradient, `group` is its group, and calls for a parameter alternate.
  virtual LayerNorms measure(const at::Tensor& parameter, const ::torch::optim::OptimizerParamGroup& group) = 0;
  virtual void apply(const at::Tensor& parameter, const ::torch::optim::OptimizerParamGroup& group,
                     const LayerNorms& norms) = 0;

 protected:
  // Groups without options have the defaults.
  LayerwiseOptimizer(const std::vector<::torch::optim::OptimizerParamGroup>& groups,
                     std::unique_ptr<::torch::optim::OptimizerOptions> defaults);
};

struct LARSOptions : ::torch::optim::OptimizerCloneableOptions<LARSOptions> {
  LARSOptions(double lr) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;
  TORCH_ARG(double, dampening) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, nesterov) = false;
  TORCH_ARG(double, trust_coefficient) = 0.001;
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(bool, layerwise) = true;  // false: the step of SGD

 public:
  void serialize(::torch::serialize::InputArchive& archive) override;
  void serialize(::torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double lr) override { lr_ = lr; }
};

// Stochastic gradient descent as torch::optim::SGD, of which gradient and weight decay of each parameter are multiplied
// by trust_coefficient * |p| / (|g| + weight_decay * |p| + eps), or by 1 where a norm is 0 (You, Gitman, Ginsburg:
// "Large Batch Training of Convolutional Networks", 2017). Parameters that are usually left out, such as biases and
// those of batch norm, belong into a group with layerwise(false). Its state is that of SGD.
class LARS : public LayerwiseOptimizer {
 public:
  // Throws c10::Error for a negative option.
  LARS(const std::vector<::torch::optim::OptimizerParamGroup>& groups, const LARSOptions& defaults);
  LARS(std::vector<at::Tensor> parameters, const LARSOptions& defaults)
      : LARS({::torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults) {}

  LayerNorms measure(const at::Tensor& parameter, const ::torch::optim::OptimizerParamGroup& group) override;
  void apply(const at::Tensor& parameter, const ::torch::optim::OptimizerParamGroup& group,
             const LayerNorms& norms) override;
  void save(::torch::serialize::OutputArchive& archive) const override;
  void load(::torch::serialize::InputArchive& archive) override;
};

struct LAMBOptions : ::torch::optim::OptimizerCloneableOptions<LAMBOptions> {
  using Betas = std::tuple<double, double>;
  LAMBOptions(double lr = 1e-3) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, layerwise) = true;

 public:
  void serialize(::torch::serialize::InputArchive& archive) override;
  void serialize(::torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double lr) override { lr_ = lr; }
};

// Adam, of which the update of each parameter, weight decay included, is multiplied by |p| / |update|, or by 1 where a
// norm is 0 (You et al.: "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", 2020). Groups as of
// LARS. Its state is that of Adam.
class LAMB : public LayerwiseOptimizer {
 public:
  // Throws c10::Error for a negative option, or betas outside of [0, 1).
  LAMB(const std::vector<::torch::optim::OptimizerParamGroup>& groups, const LAMBOptions& defaults);
  LAMB(std::vector<at::Tensor> parameters, const LAMBOptions& defaults)
      : LAMB({::torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults) {}

  LayerNorms measure(const at::Tensor& parameter, const ::torch::optim::OptimizerParamGroup& group) override;
  void apply(const at::Tensor& parameter, const ::torch::optim::OptimizerParamGroup& group,
             const LayerNorms& norms) override;
  void save(::torch::serialize::OutputArchive& archive) const override;
  void load(::torch::serialize::InputArchive& archive) override;
};

}  // namespace xoe::torch

// Small networks and data that are the same on every rank and run: nothing here draws random numbers.
#pragma once

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <vector>

#include "xoe/torch.h"

namespace xoe::torch_test {

// Throws the error, if any.
void ok(const Status& status);

using MakeOptimizer = std::function<std::unique_ptr<::torch::optim::Optimizer>(std::vector<at::Tensor>)>;
MakeOptimizer sgd(double lr = 0.05);  // momentum 0.9, nesterov, weight decay
MakeOptimizer adamw();

// Values in [-scale, scale] that depend on `seed` and the place only.
at::Tensor pattern(at::IntArrayRef sizes, double seed, double scale = 1.0);

// Two convolutions (weights in channels_last) and two linear layers; `branch` is a linear layer that forward uses only
// when asked to.
struct Net : ::torch::nn::Module {
  explicit Net(double seed = 1, at::ScalarType type = at::kFloat);
  at::Tensor forward(const at::Tensor& images, bool with_branch = false);

  at::Tensor conv1, conv1_bias, conv2, fc1, fc1_bias, fc2, branch;
};

struct Batch {
  at::Tensor images;   // [n, 3, 8, 8]
  at::Tensor targets;  // [n, 5]
};
// Samples [first, first + count) of step `step`.
Batch batch_at(int step, int first, int count, at::ScalarType type = at::kFloat);
at::Tensor loss_of(const at::Tensor& outputs, const at::Tensor& targets);

// Copies of all parameters.
std::vector<at::Tensor> snapshot(const ::torch::nn::Module& module);
bool equal_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);
double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);

struct Training {
  MakeOptimizer make_optimizer = sgd();
  torch::DistributedOptions options = {};
  int steps = 10;
  int first_step = 0;
  int batch = 4;  // per rank, per backward pass
  at::ScalarType type = at::kFloat;
};
// Trains a Net on this rank's part of each batch; its parameters at the end. Throws on any error.
std::vector<at::Tensor> train(const Training& training, Communicator& comm);

}  // namespace xoe::torch_test

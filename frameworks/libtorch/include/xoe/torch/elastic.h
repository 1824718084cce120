// A model and its optimizer as the state of an elastic run.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "xoe/elastic.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace xoe::torch {

// Parameters, buffers, the optimizer's state and options, and the variables that add() names. Model and optimizer
// outlive it. The optimizer is the one that a DistributedOptimizer was made of, in each world another one
// (elastic::RunOptions::begins, ends); not a sharded one, whose state goes with its rank.
class ModelState final : public elastic::Values {
 public:
  ModelState(::torch::nn::Module& model, ::torch::optim::Optimizer& optimizer) : model_(model), optimizer_(optimizer) {}

  Status save() override;
  Status restore() override;
  // `invalid_argument` on all ranks: another model, optimizer or other variables than `source` has.
  Status sync(Communicator& comm, int source) override;

 private:
  ::torch::nn::Module& model_;
  ::torch::optim::Optimizer& optimizer_;
  std::vector<at::Tensor> tensors_;  // copies of parameters and buffers
  std::string optimizer_bytes_;
};

}  // namespace xoe::torch

#include "frameworks/libtorch/optimizer_state.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "xoe/torch/layerwise.h"

namespace xoe::torch {
namespace optim = ::torch::optim;

StateFields fields_of(optim::OptimizerParamState& state) {
  if (auto* sgd = dynamic_cast<optim::SGDParamState*>(&state)) return {{&sgd->momentum_buffer()}, {}};
  if (auto* adam = dynamic_cast<optim::AdamParamState*>(&state)) {
    return {{&adam->exp_avg(), &adam->exp_avg_sq(), &adam->max_exp_avg_sq()}, {&adam->step()}};
  }
  if (auto* adamw = dynamic_cast<optim::AdamWParamState*>(&state)) {
    return {{&adamw->exp_avg(), &adamw->exp_avg_sq(), &adamw->max_exp_avg_sq()}, {&adamw->step()}};
  }
  if (auto* rmsprop = dynamic_cast<optim::RMSpropParamState*>(&state)) {
    return {{&rmsprop->square_avg(), &rmsprop->momentum_buffer(), &rmsprop->grad_avg()}, {&rmsprop->step()}};
  }
  if (auto* adagrad = dynamic_cast<optim::AdagradParamState*>(&state)) return {{&adagrad->sum()}, {&adagrad->step()}};
  return {};
}

std::unique_ptr<optim::OptimizerParamState> make_state(const optim::Optimizer& optimizer) {
  if (dynamic_cast<const optim::SGD*>(&optimizer)) return std::make_unique<optim::SGDParamState>();
  if (dynamic_cast<const LARS*>(&optimizer)) return std::make_unique<optim::SGDParamState>();
  if (dynamic_cast<const LAMB*>(&optimizer)) return std::make_unique<optim::AdamParamState>();
  if (dynamic_cast<const optim::Adam*>(&optimizer)) return std::make_unique<optim::AdamParamState>();
  if (dynamic_cast<const optim::AdamW*>(&optimizer)) return std::make_unique<optim::AdamWParamState>();
  if (dynamic_cast<const optim::RMSprop*>(&optimizer)) return std::make_unique<optim::RMSpropParamState>();
  if (dynamic_cast<const optim::Adagrad*>(&optimizer)) return std::make_unique<optim::AdagradParamState>();
  return nullptr;
}

}  // namespace xoe::torch

// A program that trains with libtorch on an engine of its own; a block of a document takes the place of the line below.
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "xoe/torch.h"
#include "xoe/xoe.h"

int main() {
  torch::nn::Linear model(4, 2);
  torch::optim::SGD sgd(model->parameters(), 0.1);
  auto world = xoe::init().value();
  BLOCK
  if (auto done = optimizer.zero_grad(); !done) return 1;
  model->forward(at::rand({8, 4})).square().mean().backward();
  return optimizer.step() ? 0 : 1;
}

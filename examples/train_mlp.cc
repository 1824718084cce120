// Data-parallel training in one file:  xoe run -np 2 build/release/bin/example_train_mlp
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>
#include <exception>

#include "xoe/torch.h"
#include "xoe/xoe.h"

namespace {

namespace nn = torch::nn;

void check(const xoe::Status& status) {
  if (!status) throw std::runtime_error(status.error().to_string());
}

// Two classes: points inside and outside of a circle.
std::pair<at::Tensor, at::Tensor> make_batch(int size) {
  at::Tensor points = at::rand({size, 2}) * 2 - 1;
  return {points, (points.square().sum(1) < 0.5).to(at::kLong)};
}

void train(xoe::Communicator& world) {
  at::set_num_threads(1);
  nn::Sequential model(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 2));
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));

  check(xoe::torch::broadcast_parameters(*model, world));  // all ranks start with the same weights
  auto created = xoe::torch::DistributedOptimizer::create(sgd, *model, world);
  if (!created) throw std::runtime_error(created.error().to_string());
  xoe::torch::DistributedOptimizer& optimizer = *created;

  at::manual_seed(static_cast<std::uint64_t>(world.rank()));  // each rank draws different points
  for (int step = 1; step <= 300; ++step) {
    const auto [points, classes] = make_batch(64);
    check(optimizer.zero_grad());
    const at::Tensor scores = model->forward(points);
    const at::Tensor loss = nn::functional::cross_entropy(scores, classes);
    loss.backward();          // reduces gradients as they become ready
    check(optimizer.step());  // waits for the remaining gradients, then updates
    if (step % 100 != 0) continue;
    const double hits = (scores.argmax(1) == classes).to(at::kDouble).mean().item<double>();
    const auto accuracy = xoe::torch::allreduce_metric(hits, world);
    if (!accuracy) throw std::runtime_error(accuracy.error().to_string());
    if (world.rank() == 0) std::printf("step %d: accuracy %.3f over %d ranks\n", step, *accuracy, world.size());
  }
}

}  // namespace

int main() {
  auto world = xoe::init();
  if (!world) {
    std::fprintf(stderr, "%s\n", world.error().to_string().c_str());
    return 1;
  }
  try {
    train(*world);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", world->rank(), error.what());
    return 1;
  }
}

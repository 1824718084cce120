#include "frameworks/tests/libtorch/nets.h"

#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <stdexcept>

namespace xoe::torch_test {
namespace optim = ::torch::optim;

void ok(const Status& status) {
  if (!status) throw std::runtime_error(status.error().to_string());
}

MakeOptimizer sgd(double lr) {
  return [lr](std::vector<at::Tensor> parameters) {
    return std::make_unique<optim::SGD>(std::move(parameters),
                                        optim::SGDOptions(lr).momentum(0.9).nesterov(true).weight_decay(1e-4));
  };
}

MakeOptimizer adamw() {
  return [](std::vector<at::Tensor> parameters) {
    return std::make_unique<optim::AdamW>(std::move(parameters), optim::AdamWOptions(0.01).amsgrad(true));
  };
}

at::Tensor pattern(at::IntArrayRef sizes, double seed, double scale) {
  const std::int64_t count = c10::multiply_integers(sizes);
  const at::Tensor place = at::arange(count, at::kDouble);
  return (at::sin(place * 12.9898 + seed * 78.233) * scale).to(at::kFloat).reshape(sizes);
}

Net::Net(double seed, at::ScalarType type) {
  const auto make = [&](const char* name, at::IntArrayRef sizes, double scale) {
    at::Tensor value = pattern(sizes, seed++, scale).to(type);
    if (sizes.size() == 4) value = value.contiguous(at::MemoryFormat::ChannelsLast);
    return register_parameter(name, value);
  };
  conv1 = make("conv1_weight", {6, 3, 3, 3}, 0.3);
  conv1_bias = make("conv1_bias", {6}, 0.1);
  conv2 = make("conv2_weight", {8, 6, 3, 3}, 0.2);
  fc1 = make("fc1_weight", {33, 128}, 0.1);
  fc1_bias = make("fc1_bias", {33}, 0.1);
  branch = make("branch_weight", {33, 33}, 0.1);
  fc2 = make("fc2_weight", {5, 33}, 0.2);
}

at::Tensor Net::forward(const at::Tensor& images, bool with_branch) {
  at::Tensor x = at::tanh(at::conv2d(images, conv1, conv1_bias, /*stride=*/1, /*padding=*/1));
  x = at::tanh(at::conv2d(x, conv2, {}, /*stride=*/2, /*padding=*/1));
  x = at::tanh(at::linear(x.flatten(1), fc1, fc1_bias));
  if (with_branch) x = x + at::tanh(at::linear(x, branch));
  return at::linear(x, fc2);
}

Batch batch_at(int step, int first, int count, at::ScalarType type) {
  Batch batch;
  std::vector<at::Tensor> images;
  std::vector<at::Tensor> targets;
  for (int sample = first; sample < first + count; ++sample) {
    images.push_back(pattern({3, 8, 8}, 1000.0 * step + sample));
    targets.push_back(pattern({5}, 0.5 + 1000.0 * step + sample));
  }
  return {at::stack(images).to(type), at::stack(targets).to(type)};
}

at::Tensor loss_of(const at::Tensor& outputs, const at::Tensor& targets) { return at::mse_loss(outputs, targets); }

std::vector<at::Tensor> snapshot(const ::torch::nn::Module& module) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : module.parameters()) copies.push_back(parameter.detach().clone());
  return copies;
}

bool equal_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) return false;
  }
  return true;
}

double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  }
  return largest;
}

std::vector<at::Tensor> train(const Training& training, Communicator& comm) {
  // Ranks start from different parameters: the broadcast has to bring them together.
  Net net(1 + comm.rank(), training.type);
  ok(torch::broadcast_parameters(net, comm));
  const auto wrapped = training.make_optimizer(net.parameters());
  auto optimizer = torch::DistributedOptimizer::create(*wrapped, net, comm, training.options).value();
  const int passes = training.options.backward_passes_per_step;
  for (int step = training.first_step; step < training.first_step + training.steps; ++step) {
    ok(optimizer.zero_grad());
    for (int pass = 0; pass < passes; ++pass) {
      const int first = (comm.rank() * passes + pass) * training.batch;
      const Batch batch = batch_at(step, first, training.batch, training.type);
      loss_of(net.forward(batch.images, /*with_branch=*/true), batch.targets).backward();
    }
    ok(optimizer.step());
  }
  ok(optimizer.close());
  return snapshot(net);
}

}  // namespace xoe::torch_test

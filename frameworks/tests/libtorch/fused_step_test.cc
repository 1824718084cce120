// SGD, Adam and AdamW in one pass: libtorch's numbers and libtorch's state.
#include "frameworks/libtorch/fused_step.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "frameworks/libtorch/optimizer_state.h"
#include "frameworks/tests/libtorch/nets.h"
#include "frameworks/tests/libtorch/ranks.h"

namespace xoe::torch_test {
namespace {

namespace optim = ::torch::optim;

template <class Optimizer, class Options>
MakeOptimizer maker(Options options) {
  return [options](std::vector<at::Tensor> parameters) {
    return std::make_unique<Optimizer>(std::move(parameters), options);
  };
}

std::vector<MakeOptimizer> known() {
  const auto sgd = [](optim::SGDOptions options) { return maker<optim::SGD>(options); };
  return {
      sgd(optim::SGDOptions(0.1)),
      sgd(optim::SGDOptions(0.1).weight_decay(0.01)),
      sgd(optim::SGDOptions(0.05).momentum(0.9).dampening(0.3)),
      sgd(optim::SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(1e-3)),
      maker<optim::Adam>(optim::AdamOptions(0.01)),
      maker<optim::Adam>(optim::AdamOptions(0.01).weight_decay(0.1).betas({0.3, 0.9})),
      maker<optim::Adam>(optim::AdamOptions(0.01).amsgrad(true).eps(1e-4)),
      maker<optim::AdamW>(optim::AdamWOptions(0.01)),
      maker<optim::AdamW>(optim::AdamWOptions(0.01).amsgrad(true).weight_decay(0.1)),
  };
}

void set_gradients(Net& net, int step) {
  std::size_t index = 0;
  for (at::Tensor& parameter : net.parameters()) {
    at::Tensor gradient = pattern(parameter.sizes(), 17.0 * step + static_cast<double>(index++));
    if (parameter.dim() == 4) gradient = gradient.contiguous(at::MemoryFormat::ChannelsLast);
    parameter.mutable_grad() = gradient;
  }
}

// Strides of dimensions of size 1 mean nothing, and differ between a 1x1 convolution's weight and its gradient.
TEST(FusedStep, TakesGradientsOfOneByOneConvolutions) {
  const at::Tensor weight = pattern({4, 3, 1, 1}, 1).as_strided({4, 3, 1, 1}, {3, 1, 3, 3}).set_requires_grad(true);
  optim::SGD optimizer({weight}, optim::SGDOptions(0.5));
  weight.mutable_grad() = at::ones({4, 3, 1, 1});
  ASSERT_NE(weight.strides(), weight.grad().strides());
  ASSERT_TRUE(torch::fused_step(optimizer));
  EXPECT_TRUE(at::equal(weight.detach(), pattern({4, 3, 1, 1}, 1) - 0.5));
  weight.mutable_grad() = at::ones({3, 4, 1, 1}).transpose(0, 1);
  EXPECT_FALSE(torch::fused_step(optimizer));
}

// The largest difference of two optimizers' states, relative to what is in them.
double state_difference(optim::Optimizer& a, const Net& net_a, optim::Optimizer& b, const Net& net_b) {
  EXPECT_EQ(a.state().size(), b.state().size());
  double largest = 0;
  const auto parameters_a = net_a.parameters(), parameters_b = net_b.parameters();
  for (std::size_t i = 0; i < parameters_a.size(); ++i) {
    const auto found = a.state().find(parameters_a[i].unsafeGetTensorImpl());
    if (found == a.state().end()) continue;
    const auto fields_a = torch::fields_of(*found->second);
    const auto fields_b = torch::fields_of(*b.state().at(parameters_b[i].unsafeGetTensorImpl()));
    for (std::size_t k = 0; k < fields_a.numbers.size(); ++k) EXPECT_EQ(*fields_a.numbers[k], *fields_b.numbers[k]);
    for (std::size_t k = 0; k < fields_a.tensors.size(); ++k) {
      const at::Tensor &x = *fields_a.tensors[k], &y = *fields_b.tensors[k];
      EXPECT_EQ(x.defined(), y.defined()) << k;
      if (!x.defined() || !y.defined()) continue;
      EXPECT_EQ(x.strides(), y.strides());
      largest = std::max(largest, ((x - y).abs().max() / y.abs().max()).item<double>());
    }
  }
  return largest;
}

// Each of a step's handful of operations rounds once (6e-8); the rounding that differs adds up over ten steps.
constexpr double kLastBits = 2e-6;

TEST(FusedStep, IsLibtorchsStepToTheLastBits) {
  const at::NoGradGuard no_grad;
  std::size_t index = 0;
  for (const MakeOptimizer& make : known()) {
    SCOPED_TRACE(index++);
    Net fused_net, net;
    const auto fused = make(fused_net.parameters());
    const auto plain = make(net.parameters());
    for (int step = 0; step < 10; ++step) {
      set_gradients(fused_net, step);
      set_gradients(net, step);
      if (step == 6) net.branch.mutable_grad() = fused_net.branch.mutable_grad() = at::Tensor();
      ASSERT_TRUE(torch::fused_step(*fused));
      plain->step();
      EXPECT_LT(largest_difference(snapshot(fused_net), snapshot(net)), kLastBits) << step;
    }
    EXPECT_LT(state_difference(*fused, fused_net, *plain, net), kLastBits);
  }
}

TEST(FusedStep, ContinuesLibtorchsStateAndTheReverse) {
  const at::NoGradGuard no_grad;
  for (const MakeOptimizer& make : known()) {
    Net mixed_net, net;
    const auto mixed = make(mixed_net.parameters());
    const auto plain = make(net.parameters());
    for (int step = 0; step < 8; ++step) {
      set_gradients(mixed_net, step);
      set_gradients(net, step);
      if (step % 4 < 2) {
        mixed->step();
      } else {
        ASSERT_TRUE(torch::fused_step(*mixed));
      }
      plain->step();
    }
    EXPECT_LT(largest_difference(snapshot(mixed_net), snapshot(net)), kLastBits);
  }
}

TEST(FusedStep, NumberOfThreadsDoesNotChangeBits) {
  const at::NoGradGuard no_grad;
  for (const MakeOptimizer& make : known()) {
    std::vector<at::Tensor> results;
    for (const int threads : {1, 3}) {
      at::set_num_threads(threads);
      at::Tensor parameter = pattern({100003}, 1);
      const auto optimizer = make({parameter});
      for (int step = 0; step < 3; ++step) {
        parameter.mutable_grad() = pattern({100003}, step);
        ASSERT_TRUE(torch::fused_step(*optimizer));
      }
      results.push_back(parameter);
    }
    at::set_num_threads(1);
    EXPECT_TRUE(at::equal(results[0], results[1]));
  }
}

struct HalvingSgd : optim::SGD {
  using optim::SGD::SGD;
  at::Tensor step(LossClosure) override {
    const at::NoGradGuard no_grad;
    for (auto& group : param_groups())
      for (at::Tensor& parameter : group.params()) parameter.mul_(0.5);
    return {};
  }
};

TEST(FusedStep, LeavesTheRestToLibtorch) {
  const at::NoGradGuard no_grad;
  const auto refuses = [](optim::Optimizer& optimizer, Net& net) {
    set_gradients(net, 0);
    const auto before = snapshot(net);
    EXPECT_FALSE(torch::fused_step(optimizer));
    EXPECT_TRUE(equal_bits(snapshot(net), before));
    EXPECT_TRUE(optimizer.state().empty());
  };
  Net net;
  HalvingSgd derived(net.parameters(), optim::SGDOptions(0.1));
  refuses(derived, net);
  optim::RMSprop rmsprop(net.parameters());
  refuses(rmsprop, net);
  Net doubles(1, at::kDouble);
  for (at::Tensor& parameter : doubles.parameters()) parameter.mutable_grad() = at::ones_like(parameter);
  optim::SGD of_doubles(doubles.parameters(), 0.1);
  EXPECT_FALSE(torch::fused_step(of_doubles));
  // Elements in another order than the parameter's.
  optim::SGD sgd(net.parameters(), 0.1);
  net.conv1.mutable_grad() = at::ones({6, 3, 3, 3});
  EXPECT_FALSE(torch::fused_step(sgd));
}

TEST(FusedStep, DerivedOptimizersRunTheirOwn) {
  on_ranks(2, [](Communicator& comm) {
    Net net;
    const auto before = snapshot(net);
    HalvingSgd wrapped(net.parameters(), optim::SGDOptions(0.1));
    auto optimizer = torch::DistributedOptimizer::create(wrapped, net, comm).value();
    const Batch batch = batch_at(0, comm.rank(), 1);
    loss_of(net.forward(batch.images, true), batch.targets).backward();
    ok(optimizer.step());
    EXPECT_TRUE(at::equal(net.fc1.detach(), before[3] * 0.5));
    return 0;
  });
}

TEST(FusedStep, AStepWithAClosureIsTheSame) {
  const auto run = [](bool with_closure) {
    return on_ranks(2, [&](Communicator& comm) {
      Net net;
      const auto wrapped = adamw()(net.parameters());
      auto optimizer = torch::DistributedOptimizer::create(*wrapped, net, comm).value();
      for (int step = 0; step < 3; ++step) {
        const Batch batch = batch_at(step, comm.rank(), 1);
        const auto closure = [&] {
          ok(optimizer.zero_grad());
          at::Tensor loss = loss_of(net.forward(batch.images, true), batch.targets);
          loss.backward();
          return loss;
        };
        if (with_closure) {
          EXPECT_TRUE(optimizer.step(closure).value().defined());
        } else {
          closure();
          ok(optimizer.step());
        }
      }
      return snapshot(net);
    });
  };
  EXPECT_TRUE(equal_bits(run(true)[0], run(false)[1]));
}

}  // namespace
}  // namespace xoe::torch_test

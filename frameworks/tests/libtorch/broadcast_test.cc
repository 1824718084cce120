#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "frameworks/tests/libtorch/nets.h"
#include "frameworks/tests/libtorch/ranks.h"

namespace xoe::torch_test {
namespace {

// Every type, a scalar, an empty and a large tensor, and strides that are not row-major.
struct Zoo : ::torch::nn::Module {
  explicit Zoo(double seed) {
    for (const at::ScalarType type : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
                                      at::kFloat, at::kDouble, at::kBool, at::kComplexFloat}) {
      register_buffer(c10::toString(type), pattern({3, 5}, seed, 100).abs().to(type));
    }
    register_buffer("scalar", pattern({}, seed));
    register_buffer("empty", at::empty({0, 3}));
    register_buffer("large", pattern({3, 1000, 1000}, seed));
    register_buffer("transposed", pattern({5, 7}, seed).t());
    register_parameter("gap", pattern({6, 8}, seed).slice(1, 0, 8, 2));
  }
};

TEST(Broadcast, ParametersAndBuffersOfAllTypes) {
  on_ranks(3, [](Communicator& comm) {
    Zoo zoo(comm.rank() + 1);
    ok(torch::broadcast_parameters(zoo, comm, /*root=*/1));
    const Zoo expected(2);
    for (const auto& item : expected.named_buffers()) {
      EXPECT_TRUE(at::equal(zoo.named_buffers()[item.key()], item.value())) << item.key();
    }
    EXPECT_TRUE(equal_bits(snapshot(zoo), snapshot(expected)));
    return 0;
  });
}

TEST(Broadcast, NamesTheTensorThatDiffers) {
  on_ranks(3, [](Communicator& comm) {
    Net net;
    if (comm.rank() == 1) net.fc1.set_data(at::zeros({33, 128}, at::kDouble));
    const auto before = snapshot(net);
    const Status status = torch::broadcast_parameters(net, comm, 0);
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(status.error().message(),
              "broadcast_parameters: ranks differ: fc1_weight is Float [33, 128] on rank 0, and fc1_weight is Double "
              "[33, 128] "
              "on rank 1");
    EXPECT_TRUE(equal_bits(snapshot(net), before));
    return 0;
  });
}

TEST(Broadcast, TellsOfMissingTensors) {
  struct Extra : ::torch::nn::Module {};
  on_ranks(2, [](Communicator& comm) {
    Extra extra;
    extra.register_parameter("a", at::ones({2}));
    if (comm.rank() == 0) extra.register_parameter("b", at::ones({2}));
    const Status status = torch::broadcast_parameters(extra, comm);
    EXPECT_EQ(status.error().message(),
              "broadcast_parameters: ranks differ: b is Float [2] on rank 0, and rank 1 has only 1");
    return 0;
  });
}

TEST(Broadcast, OptimizerStateAndOptions) {
  on_ranks(2, [](Communicator& comm) {
    Net net;
    ::torch::optim::Adam adam(net.parameters(), ::torch::optim::AdamOptions(0.01 * (comm.rank() + 1)));
    for (int step = 0; step < 3 + comm.rank(); ++step) {
      adam.zero_grad();
      const Batch batch = batch_at(step, comm.rank(), 1);
      loss_of(net.forward(batch.images, /*with_branch=*/comm.rank() == 1), batch.targets).backward();
      adam.step();
    }
    ok(torch::broadcast_optimizer_state(adam, comm, 0));
    EXPECT_EQ(adam.param_groups()[0].options().get_lr(), 0.01);
    EXPECT_EQ(adam.state().count(net.branch.unsafeGetTensorImpl()), 0u) << "rank 0 has none";
    const auto& state = static_cast<::torch::optim::AdamParamState&>(*adam.state()[net.fc1.unsafeGetTensorImpl()]);
    EXPECT_EQ(state.step(), 3);
    const at::Tensor other = state.exp_avg().clone();
    ok(torch::broadcast(other, comm, 0));
    EXPECT_TRUE(at::equal(other, state.exp_avg()));
    return 0;
  });
}

TEST(Broadcast, OptimizersMustBeOfOneKind) {
  on_ranks(2, [](Communicator& comm) {
    Net net;
    std::unique_ptr<::torch::optim::Optimizer> optimizer;
    if (comm.rank() == 0) optimizer = std::make_unique<::torch::optim::SGD>(net.parameters(), 0.1);
    if (comm.rank() == 1) optimizer = std::make_unique<::torch::optim::Adam>(net.parameters());
    const Status status = torch::broadcast_optimizer_state(*optimizer, comm);
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
    return 0;
  });
}

// All that send_in_parts() may meet: small and large tensors, some that are cut, gaps, and orders that are not
// row-major.
std::vector<at::Tensor> tensors_of(double seed, bool channels_last) {
  std::vector<at::Tensor> tensors;
  const Zoo zoo(seed);
  for (const auto& item : zoo.named_buffers()) tensors.push_back(item.value());
  for (const auto& item : zoo.named_parameters()) tensors.push_back(item.value().detach());
  const auto format = channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  tensors.push_back(pattern({64, 32, 3, 3}, seed).contiguous(format));
  tensors.push_back(pattern({256, 512, 3, 3}, seed).contiguous(format));  // 4.5 MiB
  tensors.push_back(pattern({2000, 1100}, seed).t());
  return tensors;
}

TEST(SendInParts, GivesEachReceiverAllToTheBit) {
  const std::vector<std::pair<std::vector<int>, std::vector<int>>> cases = {
      {{0}, {1}}, {{1}, {0, 2}}, {{0, 2}, {1}}, {{0, 1, 2}, {3}}, {{1, 3}, {0, 2}}};
  for (const auto& [from, to] : cases)
    for (const bool alike : {true, false})
      on_ranks(4, [&](Communicator& comm) {
        const bool sends = std::ranges::find(from, comm.rank()) != from.end();
        const bool receives = std::ranges::find(to, comm.rank()) != to.end();
        // Ranks whose tensors lie in other orders still get each element at its place.
        const bool channels_last = alike || comm.rank() % 2 == 0;
        const auto tensors = tensors_of(sends ? 5 : 1, channels_last);
        const auto arrival = comm.rank() % 2 == 0 ? torch::Arrival::kTogether : torch::Arrival::kOneByOne;
        ok(torch::send_in_parts(tensors, comm, from, to, arrival));
        const auto expected = tensors_of(sends || receives ? 5 : 1, channels_last);
        for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(at::equal(tensors[i], expected[i])) << i;
        return 0;
      });
}

TEST(SendInParts, AFailureChangesNothingThatShallArriveTogether) {
  on_ranks(2, [](Communicator& comm) {
    const std::vector<int> from = {0}, to = {1};
    auto tensors = tensors_of(comm.rank() == 0 ? 5 : 1, true);
    if (comm.rank() == 0) tensors.back() = tensors.back().slice(0, 0, 10);  // the exchange of it fails
    const Status sent = torch::send_in_parts(tensors, comm, from, to);
    EXPECT_FALSE(sent);
    if (comm.rank() == 0) return 0;
    const auto before = tensors_of(1, true);
    for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(at::equal(tensors[i], before[i])) << i;
    return 0;
  });
}

TEST(Tensors, AllreduceAnyLayoutAndType) {
  on_ranks(2, [](Communicator& comm) {
    const double mine = comm.rank() + 1;
    // Strides differ between ranks: elements still meet by index.
    at::Tensor tensor = at::arange(12, at::kFloat).reshape({3, 4}) * mine;
    if (comm.rank() == 1) tensor = tensor.t().contiguous().t();
    ok(torch::allreduce(tensor, comm, ReduceOp::kSum));
    EXPECT_TRUE(at::equal(tensor, at::arange(12, at::kFloat).reshape({3, 4}) * 3));
    at::Tensor half = at::full({5}, mine, at::kHalf);
    ok(torch::allreduce(half, comm));
    EXPECT_TRUE(at::equal(half, at::full({5}, 1.5, at::kHalf)));
    EXPECT_EQ(torch::allreduce(at::ones({2}, at::kComplexFloat), comm).error().code(), Code::kUnsupported);
    EXPECT_EQ(torch::allreduce(at::Tensor(), comm).error().code(), Code::kInvalidArgument);
    return 0;
  });
}

TEST(Tensors, Metrics) {
  on_ranks(3, [](Communicator& comm) {
    EXPECT_EQ(torch::allreduce_metric(comm.rank(), comm).value(), 1.0);
    EXPECT_EQ(torch::allreduce_metric(comm.rank(), comm, ReduceOp::kSum).value(), 3.0);
    const at::Tensor counts = at::full({2}, comm.rank(), at::kLong);
    const at::Tensor sums = torch::allreduce_metric(counts, comm, ReduceOp::kSum).value();
    EXPECT_TRUE(at::equal(sums, at::full({2}, 3, at::kDouble)));
    EXPECT_TRUE(at::equal(counts, at::full({2}, comm.rank(), at::kLong)));
    return 0;
  });
}

}  // namespace
}  // namespace xoe::torch_test

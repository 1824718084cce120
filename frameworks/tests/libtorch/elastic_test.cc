// A model and its optimizer as the state of an elastic run.
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include "frameworks/tests/libtorch/nets.h"
#include "frameworks/tests/libtorch/ranks.h"

namespace xoe::torch_test {
namespace {

struct AdamTraining {
  Net net{1};
  ::torch::optim::Adam adam{net.parameters(), ::torch::optim::AdamOptions(0.01)};
  std::int64_t step = 0;

  void train(int steps, int rank = 0) {
    for (const std::int64_t end = step + steps; step < end; ++step) {
      adam.zero_grad();
      const Batch batch = batch_at(static_cast<int>(step), rank, 1);
      loss_of(net.forward(batch.images), batch.targets).backward();
      adam.step();
    }
  }
};

TEST(ElasticModelState, ATrainingGoesOnFromTheCopyToTheBit) {
  AdamTraining straight, broken;
  straight.train(6);
  torch::ModelState state(broken.net, broken.adam);
  state.add("step", broken.step);
  broken.train(3);
  ok(state.save());
  broken.train(2);
  ok(state.restore());
  EXPECT_EQ(broken.step, 3);
  broken.train(3);
  EXPECT_TRUE(equal_bits(snapshot(broken.net), snapshot(straight.net))) << "weights and moments are those of the copy";
}

TEST(ElasticModelState, ARankThatJoinsTrainsOnAsTheOthersDo) {
  on_ranks(3, [](Communicator& comm) {
    AdamTraining training;
    torch::ModelState state(training.net, training.adam);
    state.add("step", training.step);
    if (comm.rank() > 0) training.train(comm.rank() == 1 ? 4 : 2);  // rank 0 has just joined
    ok(state.sync(comm, 1));
    EXPECT_EQ(training.step, 4);
    training.train(3);
    AdamTraining straight;
    straight.train(7);
    EXPECT_TRUE(equal_bits(snapshot(training.net), snapshot(straight.net))) << "rank " << comm.rank();
    return 0;
  });
}

TEST(ElasticModelState, OtherVariablesAreRefusedBeforeTheModelChanges) {
  on_ranks(2, [](Communicator& comm) {
    AdamTraining training;
    torch::ModelState state(training.net, training.adam);
    if (comm.rank() == 0) state.add("step", training.step);
    training.train(1 + comm.rank());
    const auto before = snapshot(training.net);
    const Status synced = state.sync(comm, 0);
    EXPECT_EQ(synced.error().code(), Code::kInvalidArgument);
    EXPECT_TRUE(equal_bits(snapshot(training.net), before));
    return 0;
  });
}

}  // namespace
}  // namespace xoe::torch_test

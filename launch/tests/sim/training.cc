#include "launch/tests/sim/training.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/error.h"
#include "core/testing/sim/simulation.h"
#include "xoe/elastic.h"
#include "xoe/xoe.h"

namespace xoe::launch::sim_tests {

Journal* journal = nullptr;

namespace {

namespace elastic = xoe::elastic;

struct Training {
  std::int64_t commit_every = 1;
  std::chrono::microseconds computes = {};
  std::string_view kind = "comm";  // of its sums: in turns, in groups, or by name, which the ranks negotiate
  std::vector<float> seen = std::vector<float>(64);
  std::int64_t step = 0;
  std::vector<int> ranks = {};  // of each step

  void tell(const std::string& what) const {
    const std::string line = what + "\n";
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(9);
  }

  Status sum(elastic::World& world, std::vector<float>& values) const {
    const Tensor all(values.data(), values.size());
    if (kind == "comm") return world.comm().allreduce(all);
    if (kind == "groups") {  // which come and go
      for (int i = 0; i < 2; ++i)
        if (const auto unused = world.comm().split(i); !unused) return failure(unused.error());
      XOE_ASSIGN(auto group, world.comm().split(0));
      return group->allreduce(all);
    }
    XOE_ASSIGN(Engine* const engine, world.engine());
    const auto count = static_cast<std::int64_t>(values.size());
    const TensorArg tensor{values.data(), values.data(), DType::kFloat32, {&count, 1}};
    auto summed = engine->run({.name = "ones", .tensors = {&tensor, 1}});
    return summed ? Status() : failure(summed.error());
  }

  Result<elastic::Next> take_step(elastic::World& world) {
    std::vector<float> ones(seen.size(), 1.0F);
    if (auto summed = sum(world, ones); !summed) return xoe::failure(summed.error());
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] += ones[i];
    ranks.push_back(static_cast<int>(ones.front()));
    ++step;
    std::uint8_t stop = journal->stop ? 1 : 0;
    if (auto agreed = world.comm().allreduce(Tensor(&stop, 1), ReduceOp::kMax); !agreed)
      return xoe::failure(agreed.error());
    journal->steps.push_back({step, world.rank(), world.size(), ::getpid(), sim::now()});
    std::this_thread::sleep_for(computes);
    if (stop != 0) return elastic::Next::kDone;
    return step % commit_every == 0 ? elastic::Next::kCommit : elastic::Next::kStep;
  }

  int run() {
    elastic::Values state;
    state.add("seen", Tensor(seen.data(), seen.size()));
    state.add("step", step);
    state.add("ranks", ranks);
    elastic::RunOptions options;
    options.begins = [&](elastic::World& world) -> Status {
      tell("rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size()) + " begins after step " +
           std::to_string(step));
      return {};
    };
    const auto outcome = elastic::run(
        state, [&](elastic::World& world) { return take_step(world); }, options);
    if (!outcome) {
      tell("error: " + outcome.error().to_string());
      return 1;
    }
    if (outcome->left) return 0;
    const auto total = static_cast<float>(std::accumulate(ranks.begin(), ranks.end(), 0));
    for (const float value : seen)
      if (value != total || std::ssize(ranks) != step) return 3;
    journal->ends.push_back({.step = step, .total = static_cast<double>(total), .at = sim::now()});
    return 0;
  }
};

}  // namespace

int training(int argc, char** argv) {
  if (argc != 4) return 2;
  return Training{
      .commit_every = std::atoll(argv[1]), .computes = std::chrono::microseconds(std::atoll(argv[2])), .kind = argv[3]}
      .run();
}

}  // namespace xoe::launch::sim_tests

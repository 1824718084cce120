#include "launch/tests/sim/training.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/testing/sim/simulation.h"
#include "launch/tests/sim/journal.h"
#include "launch/tests/sim/ledger.h"
#include "xoe/elastic.h"
#include "xoe/xoe.h"

namespace xoe::launch::sim_tests {

namespace {

namespace elastic = xoe::elastic;

constexpr std::size_t kTensors = 4;  // of a step, where they have names
constexpr std::string_view kLost = "re-forming the world: ";

struct Training {
  std::int64_t commit_every = 1;
  std::chrono::microseconds computes = {};
  std::string_view kind = "comm";  // of its sums: in turns, in groups, or by name, which the ranks negotiate
  std::vector<float> seen = std::vector<float>(64);
  std::int64_t step = 0;
  std::vector<int> ranks = {};  // of each step
  Records records = {};

  void tell(const std::string& what) const {
    const std::string line = what + "\n";
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(9);
  }

  void log(std::string_view line) const {
    if (line.starts_with(kLost))
      journal->losses.push_back(
          {.host = sim::facts_of(::getpid()).host, .cause = std::string(line.substr(kLost.size())), .at = sim::now()});
    std::fprintf(stderr, "xoe: %.*s\n", static_cast<int>(line.size()), line.data());
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
    return sum_by_name(world, values);
  }

  // Each rank submits the tensors in an order of its own, with pauses.
  Status sum_by_name(elastic::World& world, std::vector<float>& values) const {
    XOE_ASSIGN(Engine* const engine, world.engine());
    const auto count = static_cast<std::int64_t>(values.size());
    std::vector<std::vector<float>> tensors(kTensors);
    std::vector<EngineHandle> handles;
    Status outcome;
    const auto ran = std::make_shared<std::vector<std::string>>();
    std::vector<std::size_t> order(kTensors);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = kTensors; i > 1; --i) std::swap(order[i - 1], order[sim::draw(i)]);
    for (const std::size_t i : order) {
      const std::string name = name_of(i);
      tensors[i].assign(values.size(), value_of(i));
      const TensorArg tensor{tensors[i].data(), tensors[i].data(), DType::kFloat32, {&count, 1}};
      auto handle = engine->submit({.name = name, .tensors = {&tensor, 1}, .callback = [ran, name](const Status& done) {
                                      if (done) ran->push_back(name);
                                    }});
      if (!handle) {
        outcome = failure(handle.error());
        break;
      }
      handles.push_back(*handle);
      if (sim::draw(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(sim::draw(2000)));
    }
    // All are over before the tensors go.
    for (EngineHandle& handle : handles)
      if (Status done = handle.wait(); !done && outcome) outcome = done;
    XOE_TRY(outcome);
    compare_order(world, *ran);
    for (std::size_t i = 0; i < kTensors; ++i)
      for (const float sum : tensors[i])
        if (sum != value_of(i) * static_cast<float>(world.size()))
          return wrong(fmt::format("rank {} has {} as the sum of {} over {} ranks", world.rank(), sum, name_of(i),
                                   world.size()));
    values.assign(values.size(), static_cast<float>(world.size()));
    return {};
  }

  // Old names come back, others are new.
  std::string name_of(std::size_t tensor) const { return fmt::format("t{}.{}", tensor, tensor == 0 ? step / 8 : 0); }
  float value_of(std::size_t tensor) const {
    return static_cast<float>((step % 1000) * 8) + static_cast<float>(tensor + 1);
  }

  static Status wrong(const std::string& what) {
    journal->problems.push_back(what);
    return failure(Code::kInternal, "{}", what);
  }

  // All ranks of a world run the operations in the same order.
  void compare_order(elastic::World& world, const std::vector<std::string>& ran) const {
    const auto [first, fresh] =
        journal->orders.try_emplace({records.world(), step}, Journal::Order{.rank = world.rank(), .names = ran});
    if (!fresh && first->second.names != ran)
      journal->problems.push_back(fmt::format("in step {} rank {} ran {}, and rank {} {}", step + 1, first->second.rank,
                                              fmt::join(first->second.names, " "), world.rank(), fmt::join(ran, " ")));
  }

  Result<elastic::Next> take_step(elastic::World& world) {
    XOE_TRY(records.take(step + 1));
    std::vector<float> ones(seen.size(), 1.0F);
    if (auto summed = sum(world, ones); !summed) return xoe::failure(summed.error());
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] += ones[i];
    ranks.push_back(static_cast<int>(ones.front()));
    ++step;
    std::uint8_t stop = journal->stop ? 1 : 0;
    if (auto agreed = world.comm().allreduce(Tensor(&stop, 1), ReduceOp::kMax); !agreed)
      return xoe::failure(agreed.error());
    records.done(step);
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
    state.add("position", records.position());
    elastic::RunOptions options;
    options.begins = [&](elastic::World& world) -> Status {
      tell("rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size()) + " begins after step " +
           std::to_string(step));
      return records.begin_world(world.comm(), step + 1);
    };
    options.log = [this](std::string_view line) { log(line); };
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

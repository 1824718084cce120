// A training under xoe::elastic::run() whose ranks come and go, for elastic_test.py: FOLDER COMMIT_EVERY. It adds up,
// in each step, how many ranks took part, and remembers it. It ends when there is the file `stop`; while there is
// `fail` in the folder, a step fails with an error of its own.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "xoe/elastic.h"
#include "xoe/xoe.h"

namespace {

namespace elastic = xoe::elastic;
namespace fs = std::filesystem;

struct Training {
  fs::path folder;
  std::int64_t commit_every = 1;
  std::vector<float> seen = std::vector<float>(1000);
  std::int64_t step = 0;
  std::vector<int> ranks = {};  // of each step
  bool told_to_leave = false;

  void tell(const elastic::World& world, const std::string& what) const {
    std::printf("pid %d rank %d of %d %s\n", ::getpid(), world.rank(), world.size(), what.c_str());
    std::fflush(stdout);
  }

  xoe::Result<elastic::Next> take_step(elastic::World& world) {
    auto engine = world.engine();
    if (!engine) return xoe::failure(engine.error());
    std::vector<float> ones(seen.size(), 1.0F);
    const std::int64_t count = std::ssize(ones);
    const xoe::TensorArg tensor{ones.data(), ones.data(), xoe::DType::kFloat32, {&count, 1}};
    if (auto summed = (*engine)->run({.name = "ones", .tensors = {&tensor, 1}}); !summed)
      return xoe::failure(summed.error());
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] += ones[i];
    ranks.push_back(static_cast<int>(ones.front()));
    ++step;
    if (fs::exists(folder / "fail")) return xoe::failure(xoe::Code::kDataLoss, "a step that fails");
    std::uint8_t stop = fs::exists(folder / "stop") ? 1 : 0;
    if (auto agreed = world.comm().allreduce(xoe::Tensor(&stop, 1), xoe::ReduceOp::kMax); !agreed)
      return xoe::failure(agreed.error());
    tell(world, "has done step " + std::to_string(step));
    if (!told_to_leave && world.change() == elastic::Change::kLeave) {
      told_to_leave = true;
      tell(world, "learns that it is to leave");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (stop != 0) return elastic::Next::kDone;
    return step % commit_every == 0 ? elastic::Next::kCommit : elastic::Next::kStep;
  }

  int run() {
    elastic::Values state;
    state.add("seen", xoe::Tensor(seen.data(), seen.size()));
    state.add("step", step);
    state.add("ranks", ranks);
    elastic::RunOptions options;
    options.begins = [&](elastic::World& world) -> xoe::Status {
      tell(world, "begins after step " + std::to_string(step));
      return {};
    };
    options.ends = [&](elastic::World& world) { tell(world, "ends a world"); };
    options.leaves = [&](elastic::World& world) { tell(world, "leaves"); };
    const auto outcome = elastic::run(
        state, [&](elastic::World& world) { return take_step(world); }, options);
    if (!outcome) {
      std::fprintf(stderr, "error: %s\n", outcome.error().to_string().c_str());
      return 1;
    }
    if (outcome->left) return 0;
    const auto total = static_cast<float>(std::accumulate(ranks.begin(), ranks.end(), 0));
    for (const float value : seen)
      if (value != total || std::ssize(ranks) != step) return 3;
    std::printf("ended after step %lld: total %g, %d worlds, %d losses\n", static_cast<long long>(step),
                static_cast<double>(total), outcome->worlds, outcome->losses);
    return 0;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return Training{.folder = argv[1], .commit_every = std::atoll(argv[2])}.run();
}

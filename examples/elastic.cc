// Fits a line on ranks that may be lost, leave and join while it runs:
//   xoe run -np 3 --min-np 1 --restarts 3 example_elastic [STEPS]
// Kill a rank with `kill -9`, of which it prints the process: the others go on after the step that all of them have
// finished. A step takes 5 ms.
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "xoe/elastic.h"
#include "xoe/xoe.h"

namespace {

namespace elastic = xoe::elastic;

constexpr std::int64_t kSteps = 4000;

// The mean gradient of (slope x + offset - y)^2 over points of y = 3 x + 1 that this rank draws.
std::array<double, 2> gradient(const std::array<double, 2>& line, std::int64_t step, int rank) {
  constexpr int kPoints = 16;
  std::mt19937 random(static_cast<unsigned>(1000 * step + rank));
  std::uniform_real_distribution<double> draw(-1, 1);
  std::array<double, 2> sum = {};
  for (int i = 0; i < kPoints; ++i) {
    const double x = draw(random);
    const double error = line[0] * x + line[1] - (3 * x + 1);
    sum[0] += 2 * error * x / kPoints;
    sum[1] += 2 * error / kPoints;
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : kSteps;
  std::array<double, 2> line = {};
  std::int64_t step = 0;
  elastic::Values state;
  state.add("line", xoe::Tensor(line.data(), line.size()));
  state.add("step", step);

  const auto train = [&](elastic::World& world) -> xoe::Result<elastic::Next> {
    std::array<double, 2> mean = gradient(line, step, world.rank());
    if (auto done = world.comm().allreduce(xoe::Tensor(mean.data(), mean.size()), xoe::ReduceOp::kAverage); !done)
      return xoe::failure(done.error());
    for (std::size_t i = 0; i < line.size(); ++i) line[i] -= 0.1 * mean[i];
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // stands for the work of a larger model
    return ++step < steps ? elastic::Next::kCommit : elastic::Next::kDone;
  };
  const auto begins = [&](elastic::World& world) -> xoe::Status {
    std::printf("rank %d of %d is process %d, from step %lld\n", world.rank(), world.size(), ::getpid(),
                static_cast<long long>(step));
    std::fflush(stdout);
    return {};
  };

  const auto outcome = elastic::run(state, train, {.begins = begins});
  if (!outcome) {
    std::fprintf(stderr, "%s\n", outcome.error().to_string().c_str());
    return 1;
  }
  if (!outcome->left)
    std::printf("y = %.3f x + %.3f after %lld steps\n", line[0], line[1], static_cast<long long>(step));
  return 0;
}

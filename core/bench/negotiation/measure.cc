// The time of a step of 1,000 named tensors of 4 bytes, nearly all of which is agreement:
//   xoe run -np N xoe_measure_negotiation [TENSORS [STEPS]]        XOE_PRETEND_HOSTS=H: between H hosts
// Rank 0 prints a row of a Markdown table. Each rank submits in an order of its own.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "xoe/engine.h"
#include "xoe/xoe.h"

namespace {

using Clock = std::chrono::steady_clock;

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

class Steps {
 public:
  Steps(xoe::Engine& engine, std::size_t tensors)
      : engine_(engine),
        values_(tensors, 1.0F),
        order_(tensors),
        random_(static_cast<unsigned>(engine.topology().rank)) {
    std::iota(order_.begin(), order_.end(), 0);
    for (std::size_t i = 0; i < tensors; ++i) names_.push_back("layer" + std::to_string(i) + ".weight");
  }

  // Microseconds of one step; all ranks begin together.
  double run() {
    std::shuffle(order_.begin(), order_.end(), random_);
    check(engine_.run({.name = "begin", .op = {.kind = xoe::OpKind::kBarrier}}));
    const auto began = Clock::now();
    std::vector<xoe::EngineHandle> handles;
    handles.reserve(order_.size());
    for (const std::size_t i : order_) {
      const xoe::TensorArg tensor{&values_[i], &values_[i], xoe::DType::kFloat32, {}};
      auto handle = engine_.submit({.name = names_[i], .op = {.reduce = xoe::ReduceOp::kMax}, .tensors = {&tensor, 1}});
      if (!handle) check(xoe::failure(handle.error()));
      handles.push_back(*handle);
    }
    for (auto& handle : handles) check(handle.wait());
    return std::chrono::duration<double, std::micro>(Clock::now() - began).count();
  }

 private:
  static void check(const xoe::Status& status) {
    if (status) return;
    std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
    std::exit(1);
  }

  xoe::Engine& engine_;
  std::vector<float> values_;
  std::vector<std::size_t> order_;
  std::vector<std::string> names_;
  std::mt19937 random_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::size_t tensors = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const std::size_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 200;
  auto world = xoe::init();
  if (!world || tensors == 0 || count == 0) {
    std::fprintf(stderr, "%s\n",
                 world ? "usage: xoe_measure_negotiation [TENSORS [STEPS]]" : world.error().to_string().c_str());
    return world ? 2 : 1;
  }
  xoe::EngineOptions options;
  options.tune = false;
  auto engine = xoe::Engine::create(std::move(*world), options);
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().to_string().c_str());
    return 1;
  }
  Steps steps(**engine, tensors);
  const double first = steps.run();
  for (int i = 0; i < 20; ++i) steps.run();
  const double used = processor_seconds();
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(steps.run());
  const double per_tensor = (processor_seconds() - used) * 1e6 / static_cast<double>(count * tensors);
  std::sort(times.begin(), times.end());
  const xoe::Topology& topology = (*engine)->topology();
  if (topology.rank == 0)
    std::printf("| %d | %d | %zu | %.0f | %.0f | %.2f |\n", topology.size, topology.cross_size, tensors, first,
                times[times.size() / 2], per_tensor);
  return 0;
}

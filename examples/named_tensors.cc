// Averages the gradients of a simulated network by name while its backward pass is running:
//   xoe run -np 4 example_named_tensors
//   XOE_TIMELINE=run.json XOE_PRETEND_HOSTS=2 xoe run -np 4 example_named_tensors
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "xoe/engine.h"
#include "xoe/xoe.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Layer {
  std::string name;
  std::int64_t values;
  std::chrono::microseconds backward;  // how long its gradient takes to compute
};

const std::vector<Layer> kLayers{{"fc", 20'000, std::chrono::microseconds(300)},
                                 {"conv3", 400'000, std::chrono::microseconds(2000)},
                                 {"conv2", 100'000, std::chrono::microseconds(1500)},
                                 {"conv1", 10'000, std::chrono::microseconds(800)}};

// Rank 3 is slower than the others.
void compute(xoe::Engine& engine, const Layer& layer) {
  const auto start = Clock::now();
  const auto stop = start + layer.backward * (engine.topology().rank == 3 ? 2 : 1);
  while (Clock::now() < stop) {
  }
  engine.mark("compute", "backward " + layer.name, start, Clock::now());
}

xoe::Status step(xoe::Engine& engine, std::vector<std::vector<float>>& gradients) {
  std::vector<xoe::EngineHandle> handles;
  for (std::size_t i = 0; i < kLayers.size(); ++i) {
    compute(engine, kLayers[i]);
    gradients[i].assign(static_cast<std::size_t>(kLayers[i].values), static_cast<float>(engine.topology().rank));
    const std::vector<std::int64_t> shape{kLayers[i].values};
    const xoe::TensorArg tensor{gradients[i].data(), gradients[i].data(), xoe::DType::kFloat32, shape};
    auto handle =
        engine.submit({.name = kLayers[i].name, .op = {.reduce = xoe::ReduceOp::kAverage}, .tensors = {&tensor, 1}});
    if (!handle) return xoe::failure(handle.error());
    handles.push_back(*handle);
  }
  for (auto& handle : handles)
    if (auto status = handle.wait(); !status) return status;
  return {};
}

xoe::Status run() {
  std::vector<std::string> warnings;
  auto options = xoe::read_engine_options(warnings);
  if (!options) return xoe::failure(options.error());
  for (const auto& warning : warnings) std::fprintf(stderr, "%s\n", warning.c_str());
  auto world = xoe::init();
  if (!world) return xoe::failure(world.error());
  auto engine = xoe::Engine::create(std::move(*world), *options);
  if (!engine) return xoe::failure(engine.error());
  std::vector<std::vector<float>> gradients(kLayers.size());
  for (int i = 0; i < 8; ++i)
    if (auto status = step(**engine, gradients); !status) return status;
  std::printf("rank %d: the average is %g\n", (*engine)->topology().rank, static_cast<double>(gradients[0][0]));
  return {};
}

}  // namespace

int main() {
  if (const auto status = run(); !status) {
    std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
    return 1;
  }
  return 0;
}

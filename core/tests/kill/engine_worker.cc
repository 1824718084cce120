// A rank that keeps an engine busy until something goes wrong, and then says what and when.
//   engine_worker blocking | async | threads | callbacks | sets | kinds
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "xoe/engine.h"
#include "xoe/xoe.h"

namespace {

using Shape = std::vector<std::int64_t>;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int fail(const xoe::Error& error) {
  std::printf("failed %.6f %s\n", now_seconds(), error.to_string().c_str());
  return 3;
}

// Tensors of one rank, of all sizes.
class Tensors {
 public:
  Tensors(std::string prefix, xoe::ProcessSetId set) : prefix_(std::move(prefix)), set_(set) {
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t count = std::int64_t{1} << (i % 5 * 4);
      values_.emplace_back(static_cast<std::size_t>(count), 1.0F);
      shapes_.push_back({count});
      order_.push_back(static_cast<std::size_t>(i));
    }
    for (std::size_t i = 0; i < kCount; ++i) args_.push_back({values_[i].data(), values_[i].data(), {}, shapes_[i]});
    for (auto& arg : args_) arg.dtype = xoe::DType::kFloat32;
  }

  // One step: all of them in an order of this rank's own. The first error, when all have ended.
  xoe::Status step(xoe::Engine& engine, std::mt19937& random, const xoe::Callback& callback = {}) {
    std::shuffle(order_.begin(), order_.end(), random);
    std::vector<xoe::EngineHandle> handles;
    xoe::Status first;
    for (const std::size_t i : order_) {
      auto handle = engine.submit({.name = prefix_ + std::to_string(i),
                                   .op = {.reduce = xoe::ReduceOp::kMax},
                                   .tensors = {&args_[i], 1},
                                   .process_set = set_,
                                   .callback = callback});
      if (handle)
        handles.push_back(*handle);
      else if (first)
        first = xoe::failure(handle.error());
    }
    for (auto& handle : handles)
      if (const auto status = handle.wait(); !status && first) first = status;
    return first;
  }

 private:
  static constexpr int kCount = 15;
  std::string prefix_;
  xoe::ProcessSetId set_;
  std::vector<std::vector<float>> values_;
  std::vector<Shape> shapes_;
  std::vector<std::size_t> order_;
  std::vector<xoe::TensorArg> args_;
};

xoe::Status step_of_kinds(xoe::Engine& engine) {
  std::vector<float> x(3000, 1.0F);
  const Shape shape{300, 10};
  const xoe::TensorArg tensor{x.data(), nullptr, xoe::DType::kFloat32, shape};
  for (const auto kind :
       {xoe::OpKind::kAllgather, xoe::OpKind::kAlltoall, xoe::OpKind::kReduceScatter, xoe::OpKind::kBroadcastBytes})
    if (const auto status = engine.run({.op = {.kind = kind}, .tensors = {&tensor, 1}}); !status) return status;
  const xoe::TensorArg both{x.data(), x.data(), xoe::DType::kFloat32, shape};
  if (const auto status = engine.run({.name = "a", .op = {.kind = xoe::OpKind::kAdasum}, .tensors = {&both, 1}});
      !status)
    return status;
  for (const auto codec : {xoe::Compression::kFloat8, xoe::Compression::kTopK, xoe::Compression::kPowerSgd})
    if (const auto status = engine.run({.name = std::string("c") + std::to_string(static_cast<int>(codec)),
                                        .op = {.compression = {.kind = codec}},
                                        .tensors = {&both, 1}});
        !status)
      return status;
  return engine.run({.op = {.kind = xoe::OpKind::kBarrier}});
}

int run(xoe::Engine& engine, std::string_view mode) {
  const int rank = engine.topology().rank, size = engine.topology().size;
  std::mt19937 random(static_cast<unsigned>(rank));
  std::vector<xoe::ProcessSetId> sets{xoe::kWorldSet};
  if (mode == "sets")
    for (int s = 0; s < size; ++s) {
      std::vector<int> ranks(static_cast<std::size_t>(size));
      std::iota(ranks.begin(), ranks.end(), 0);
      std::rotate(ranks.begin(), ranks.begin() + s, ranks.end());
      auto set = engine.add_process_set(ranks);
      if (!set) return fail(set.error());
      sets.push_back(*set);
    }
  std::vector<Tensors> tensors;
  for (const auto set : sets) tensors.emplace_back("t", set);
  Tensors others("u", xoe::kWorldSet);
  std::printf("ready %d %d\n", rank, ::getpid());
  std::fflush(stdout);
  std::atomic<long> completed{0};
  while (true) {
    xoe::Status status;
    if (mode == "blocking") {
      float x = 1;
      const xoe::TensorArg scalar{&x, &x, xoe::DType::kFloat32, {}};
      status = engine.run({.name = "x", .tensors = {&scalar, 1}});
    } else if (mode == "kinds") {
      status = step_of_kinds(engine);
    } else if (mode == "callbacks") {
      status = tensors[0].step(engine, random, [&](const xoe::Status&) { ++completed; });
    } else if (mode == "threads") {
      xoe::Status second;
      std::jthread helper([&] {
        std::mt19937 own(static_cast<unsigned>(rank) + 100);
        second = others.step(engine, own);
      });
      status = tensors[0].step(engine, random);
      helper.join();
      if (status) status = second;
    } else {
      for (auto& of_set : tensors)
        if (status) status = of_set.step(engine, random);
    }
    if (status) continue;
    const int code = fail(status.error());
    float x = 1;
    const xoe::TensorArg scalar{&x, &x, xoe::DType::kFloat32, {}};
    if (engine.submit({.name = "later", .tensors = {&scalar, 1}})) std::puts("a later submission was accepted");
    return code;
  }
}

}  // namespace

int main(int argc, char** argv) {
  // The launcher ends survivors with SIGTERM; here they are to tell their story first.
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, nullptr);
  auto world = xoe::init();
  if (!world) {
    std::printf("init %.6f %s\n", now_seconds(), world.error().to_string().c_str());
    return 4;
  }
  auto engine = xoe::Engine::create(std::move(*world));
  if (!engine) {
    std::printf("engine %.6f %s\n", now_seconds(), engine.error().to_string().c_str());
    return 4;
  }
  return run(**engine, argc > 1 ? argv[1] : "async");
}

#include "engine/tuning/measure_speeds.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kValues = std::size_t{64} << 10;  // 256 KiB of float32: larger than the first-level caches
constexpr int kTries = 4;

// The time of the quickest of several calls of act(), in seconds.
template <class Act>
Result<double> best_of(Act&& act) {
  double best = 1;
  for (int i = 0; i < kTries; ++i) {
    const auto began = std::chrono::steady_clock::now();
    XOE_TRY(act());
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  return std::max(best, 1e-9);
}

}  // namespace

Result<Speeds> measure_speeds(Communicator& comm) {
  constexpr double kBytes = kValues * sizeof(float);
  std::vector<float> values(kValues), copy(kValues);
  float one = 0;
  Speeds speeds;
  XOE_ASSIGN(const double latency,
             best_of([&] { return comm.allreduce(Tensor(&one, 1), ReduceOp::kMax, {.name = "speed"}); }));
  XOE_ASSIGN(const double reduce, best_of([&] {
               return comm.allreduce(Tensor(values.data(), kValues), ReduceOp::kMax, {.name = "speed"});
             }));
  XOE_ASSIGN(const double copied, best_of([&]() -> Status {
               std::memcpy(copy.data(), values.data(), kValues * sizeof(float));
               values[0] = copy[kValues - 1];
               return {};
             }));
  speeds.latency_ns = latency * 1e9;
  speeds.reduce_bytes_per_second = kBytes / std::max(reduce - latency, 1e-7);
  speeds.copy_bytes_per_second = kBytes / copied;
  return speeds;
}

}  // namespace xoe::engine

// A step of 1,000 named tensors of 1 KiB through the C interface: each submitted, then all waited for. Under `xoe run`;
// rank 0 prints the median, and the tenth and ninetieth percentile.
//   xoe run -np 2 xoe_bench_small_tensors [TIMELINE]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "xoe/c.h"

namespace {

constexpr int kTensors = 1000;
constexpr int kNumbers = 256;  // float32: 1 KiB
constexpr int kSteps = 300, kWarmup = 50;

void check(xoe_status status) {
  if (status == XOE_OK) return;
  fmt::print(stderr, "{}\n", xoe_last_error());
  std::exit(1);
}

}  // namespace

int main(int count, char** arguments) {
  xoe_engine* engine = nullptr;
  check(xoe_init(nullptr, &engine));
  if (count > 1) check(xoe_timeline_start(engine, arguments[1]));
  std::vector<float> data(static_cast<std::size_t>(kTensors) * kNumbers);
  std::vector<std::string> names;
  for (int i = 0; i < kTensors; ++i) names.push_back(fmt::format("gradient.{}", i));
  std::vector<xoe_handle*> handles(kTensors);
  std::vector<double> times;
  const std::int64_t shape = kNumbers;
  for (int step = 0; step < kSteps; ++step) {
    const std::int64_t start = xoe_now();
    for (std::size_t i = 0; i < handles.size(); ++i) {
      xoe_tensor tensor{};
      tensor.in = tensor.out = data.data() + i * kNumbers;
      tensor.shape = &shape;
      tensor.ndim = 1;
      tensor.dtype = XOE_FLOAT32;
      xoe_request request;
      xoe_request_init(&request, sizeof(request));
      request.name = names[i].c_str();
      request.tensors = &tensor;
      request.tensor_count = 1;
      check(xoe_submit(engine, &request, &handles[i]));
    }
    for (xoe_handle* handle : handles) {
      check(xoe_wait(handle));
      xoe_release(handle);
    }
    if (step >= kWarmup) times.push_back(static_cast<double>(xoe_now() - start) / 1e6);
  }
  std::ranges::sort(times);
  xoe_topology at{};
  check(xoe_topology_of(engine, &at));
  const auto share = [&](double part) {
    return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
  };
  if (at.rank == 0)
    fmt::print("{} x 1 KiB: median {:.3f} ms, p10 {:.3f}, p90 {:.3f}\n", kTensors, share(0.5), share(0.1), share(0.9));
  xoe_shutdown(engine);
}

#include "core/bench/collectives/harness.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "core/bench/collectives/figure.h"
#include "core/bench/collectives/serve.h"
#include "core/bench/collectives/sync.h"

namespace xoe::bench {
namespace {

// "allreduce 65536 float32 rewritten 0.2"
bool parse(const std::string& command, Plan& plan) {
  unsigned long long bytes = 0;
  char collective[16] = {};
  char dtype[16] = {};
  char mode[16] = {};
  double seconds = 0;
  if (std::sscanf(command.c_str(), "%15s %llu %15s %15s %lf", collective, &bytes, dtype, mode, &seconds) != 5)
    return false;
  plan = Plan{};
  plan.bytes = bytes;
  plan.seconds = seconds;
  plan.rewritten = std::strcmp(mode, "rewritten") == 0 ? 1 : 0;
  while (plan.collective < kBenchCollectives && std::strcmp(collective, collective_text(plan.collective)) != 0)
    ++plan.collective;
  if (plan.collective == kBenchCollectives) return false;
  for (const int candidate : {kBenchFloat32, kBenchBfloat16, kBenchFloat16}) {
    if (std::strcmp(dtype, dtype_text(candidate)) == 0) {
      plan.dtype = candidate;
      return bytes > 0 && bytes % 4 == 0 && seconds > 0 && (plan.rewritten != 0 || std::strcmp(mode, "hot") == 0);
    }
  }
  return false;
}

}  // namespace
}  // namespace xoe::bench

std::size_t xoe_bench_sync_bytes(void) { return sizeof(xoe::bench::SharedState); }

int xoe_bench_serve(const char* path, int rank, int size, const XoeBenchEngine* engine) {
  return xoe::bench::serve(
      path, rank, size,
      [](xoe::bench::Sync& sync, const std::string& command) { return xoe::bench::parse(command, sync.state().plan); },
      [&](xoe::bench::Sync& sync, std::string& line) { return xoe::bench::run_figure(sync, *engine, line); });
}

#include "harness.h"

#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include "figure.h"
#include "sync.h"

namespace xoe::bench {
namespace {

// "65536 float32 rewritten 0.2"
bool parse(const std::string& command, Plan& plan) {
  unsigned long long bytes = 0;
  char dtype[16] = {};
  char mode[16] = {};
  double seconds = 0;
  if (std::sscanf(command.c_str(), "%llu %15s %15s %lf", &bytes, dtype, mode, &seconds) != 4) return false;
  plan = Plan{};
  plan.bytes = bytes;
  plan.seconds = seconds;
  plan.rewritten = std::strcmp(mode, "rewritten") == 0 ? 1 : 0;
  for (const int candidate : {kBenchFloat32, kBenchBfloat16, kBenchFloat16}) {
    if (std::strcmp(dtype, dtype_text(candidate)) == 0) {
      plan.dtype = candidate;
      return bytes > 0 && bytes % 4 == 0 && seconds > 0 && (plan.rewritten != 0 || std::strcmp(mode, "hot") == 0);
    }
  }
  return false;
}

int lead(Sync& sync, const XoeBenchEngine& engine) {
  std::cout << "{\"ready\": true}" << std::endl;
  for (std::string command; std::getline(std::cin, command);) {
    if (!parse(command, sync.state().plan)) {
      std::cout << "{\"error\": \"bad command\"}" << std::endl;
      continue;
    }
    sync.publish(/*quit=*/false);
    std::string line;
    const bool good = run_figure(sync, engine, line);
    if (!good) sync.fail();
    std::cout << line << std::endl;
    if (!good) return 1;
  }
  sync.publish(/*quit=*/true);
  return 0;
}

int follow(Sync& sync, const XoeBenchEngine& engine) {
  while (sync.wait_for_plan()) {
    std::string line;
    if (!run_figure(sync, engine, line)) {
      sync.fail();
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace xoe::bench

std::size_t xoe_bench_sync_bytes(void) { return sizeof(xoe::bench::SharedState); }

int xoe_bench_serve(const char* path, int rank, int size, const XoeBenchEngine* engine) {
  xoe::bench::Sync sync(path == nullptr ? "" : path, rank, size);
  if (!sync.valid()) {
    std::cerr << "XOE_BENCH_SYNC does not name a file of bench/run.py\n";
    return 2;
  }
  return rank == 0 ? xoe::bench::lead(sync, *engine) : xoe::bench::follow(sync, *engine);
}

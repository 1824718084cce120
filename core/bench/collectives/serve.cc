#include "core/bench/collectives/serve.h"

#include <iostream>

namespace xoe::bench {
namespace {

int lead(Sync& sync, const Parse& parse, const Run& run) {
  std::cout << "{\"ready\": true}" << std::endl;
  for (std::string command; std::getline(std::cin, command);) {
    if (!parse(sync, command)) {
      std::cout << "{\"error\": \"bad command\"}" << std::endl;
      continue;
    }
    sync.publish(/*quit=*/false);
    std::string line;
    const bool good = run(sync, line);
    if (!good) sync.fail();
    std::cout << line << std::endl;
    if (!good) return 1;
  }
  sync.publish(/*quit=*/true);
  return 0;
}

int follow(Sync& sync, const Run& run) {
  while (sync.wait_for_plan()) {
    std::string line;
    if (!run(sync, line)) {
      sync.fail();
      return 1;
    }
  }
  return 0;
}

}  // namespace

int serve(const char* path, int rank, int size, const Parse& parse, const Run& run) {
  Sync sync(path == nullptr ? "" : path, rank, size);
  if (!sync.valid()) {
    std::cerr << "XOE_BENCH_SYNC does not name a file of measure/compare/run.py\n";
    return 2;
  }
  return rank == 0 ? lead(sync, parse, run) : follow(sync, run);
}

}  // namespace xoe::bench

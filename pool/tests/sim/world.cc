#include "pool/tests/sim/world.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "core/base/text.h"

namespace xoe::pool::sim_tests {

World* world = nullptr;

std::string gpu_name(const std::string& host, int index) { return fmt::format("GPU-{}-{}", host, index); }

std::vector<pid_t> World::programs_on(const std::string& host, const std::string& gpu) const {
  std::vector<pid_t> found;
  for (const auto& [pid, one] : computing)
    if (one.host == host && one.gpus.contains(gpu) && !sim::facts_of(pid).ended) found.push_back(pid);
  return found;
}

int training(int argc, char** argv) {
  const char* const devices = std::getenv("CUDA_VISIBLE_DEVICES");
  const char* const lease = std::getenv("XOE_POOL_LEASE");
  if (argc != 3 || devices == nullptr) return 2;
  Computing mine{.host = sim::name_of_this_host(),
                 .busy = argv[2] == std::string_view("busy"),
                 .lease = lease == nullptr ? 0 : std::atoll(lease),
                 .since = sim::now()};
  for (const std::string& gpu : split_text(devices, ',')) mine.gpus.insert(gpu);
  for (const std::string& gpu : mine.gpus)
    for (const pid_t other : world->programs_on(mine.host, gpu)) {
      const Computing& there = world->computing.at(other);
      if (mine.lease != 0 && there.lease != 0)
        world->problems.push_back(
            fmt::format("at {:.3f} s a program of lease {} begins on {}, where one of lease {} runs",
                        static_cast<double>(mine.since) / 1e9, mine.lease, gpu, there.lease));
    }
  world->computing[::getpid()] = mine;
  std::this_thread::sleep_for(std::chrono::seconds(std::atoll(argv[1])));
  world->computing.erase(::getpid());
  return 0;
}

}  // namespace xoe::pool::sim_tests

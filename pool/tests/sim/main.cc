// Simulates a lab whose people share GPUs: the pool's server, its agents and commands, all real, in virtual time.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/testing/sim/runner.h"
#include "pool/tests/sim/lab.h"
#include "pool/tests/sim/world.h"

namespace xoe::pool::sim_tests {
namespace {

constexpr int kDays = 365;

// In memory, since the database is flushed with each turn of the pool.
std::string make_folder() {
  std::string path =
      std::filesystem::is_directory("/dev/shm") ? "/dev/shm/xoe-pool-sim-XXXXXX" : "/tmp/xoe-pool-sim-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) std::abort();
  return path;
}

sim::Outcome simulate(Schedule schedule, const std::set<std::size_t>& without, const std::string& folder,
                      sim::Time look_every) {
  world = new World;
  const std::string own = folder + "/" + std::to_string(schedule.options.seed);
  std::filesystem::remove_all(own);
  std::filesystem::create_directories(own);
  Lab lab(std::move(schedule), without, own, look_every);
  sim::Outcome outcome;
  sim::simulate(lab.options(), [&] {
    outcome = lab.run();
    return 0;
  });
  std::filesystem::remove_all(own);
  return outcome;
}

}  // namespace
}  // namespace xoe::pool::sim_tests

int main(int argc, char** argv) {
  using namespace xoe::pool::sim_tests;
  namespace sim = xoe::sim;
  sim::fix_addresses(argv);
  int days = 0;
  std::vector<char*> words;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--year")
      days = kDays;
    else if (word == "--days" && i + 1 < argc)
      days = std::atoi(argv[++i]);
    else
      words.push_back(argv[i]);
  }
  const std::string folder = make_folder();
  const std::string name = std::string(argv[0]) + (days == 0 ? "" : " --days " + std::to_string(days));
  const int code = sim::run_suite(
      static_cast<int>(words.size()), words.data(),
      {.name = name,
       .describes = "Simulates a lab whose people share GPUs, of which something fails.\n  --year, --days N: so many "
                    "days of it, with rarer reports",
       .hangs = days > 0 ? 7200.0 : 300.0,
       .run = [&](std::uint64_t seed, const std::set<std::size_t>& without) {
         if (days > 0) return simulate(year_of(seed, days), without, folder, 3 * 3600 * sim::kSecond);
         return simulate(schedule_of(seed), without, folder, 5 * sim::kSecond);
       }});
  std::filesystem::remove_all(folder);
  return code;
}

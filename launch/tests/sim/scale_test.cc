// Many hosts: how long their world takes to form, and to form again without one of them, in virtual time. Calls cost
// nothing there but the time of messages, and what the code waits for.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>

#include "core/testing/sim/simulated_case.h"
#include "launch/tests/sim/journal.h"
#include "launch/tests/sim/members.h"
#include "launch/tests/sim/training.h"

namespace xoe::launch::sim_tests {
namespace {

constexpr sim::Time kFormsWithin = 60 * sim::kSecond;
constexpr sim::Time kOneStep = 10 * sim::kMilli;

sim::Options network_of_a_cluster() {
  sim::Options options;
  options.preempt = 0.001;
  options.short_read = options.slow_message = 0;
  options.latency = options.jitter = 50 * sim::kMicro;
  options.parallel = true;
  return options;
}

// When the last of all ranks of a world of this size has completed its first step in it; after `kFormsWithin` at the
// latest.
sim::Time formed(int ranks, sim::Time since) {
  for (const sim::Time until = sim::now() + kFormsWithin; sim::now() < until; sim::sleep_for(kOneStep)) {
    std::set<long long> done;
    for (const Record& one : journal->steps)
      if (one.at >= since && one.size == ranks && done.insert(one.pid).second && std::ssize(done) == ranks)
        return one.at - since;
  }
  return kFormsWithin;
}

struct Times {
  sim::Time first = 0, again = 0;
};

Times times_of(int hosts) {
  Members members(hosts);
  sim::add_program("training", &training);
  const std::string least = fmt::format("{}:{}", hosts - 1, hosts);
  members.start_all("training 1 10000 names", {"--nodes", least, "-np", "1", "--restarts", "9"},
                    {"XOE_ARENA_BYTES=16777216", "XOE_PLUGIN_DIR=" XOE_SIM_PLUGINS});
  Times times{.first = formed(hosts, 0)};
  sim::sleep_for(sim::kSecond);
  const sim::Time killed = sim::now();
  members.host(hosts / 2).kill_all(SIGKILL);
  times.again = formed(hosts - 1, killed);
  fmt::print("{} hosts: the first step after {:.3f} s, the first without a host after {:.3f} s\n", hosts,
             static_cast<double>(times.first) / 1e9, static_cast<double>(times.again) / 1e9);
  return times;
}

void expect_within(int hosts, sim::Time first, sim::Time again) {
  journal = new Journal;  // before the simulation, so that each of its processes has it
  sim::simulate_case(
      [=] {
        const Times times = times_of(hosts);
        EXPECT_LE(times.first, first);
        EXPECT_LE(times.again, again);
      },
      network_of_a_cluster());
}

// Closing the connections between those that are left took 10 ms for each of them.
TEST(Scale, AWorldFormsAgainAsFastWhateverTheNumberOfHosts) {
  expect_within(4, 200 * sim::kMilli, 180 * sim::kMilli);
  expect_within(12, 200 * sim::kMilli, 200 * sim::kMilli);
}

TEST(Scale, FullSixtyFourHosts) { expect_within(64, 500 * sim::kMilli, 500 * sim::kMilli); }

}  // namespace
}  // namespace xoe::launch::sim_tests

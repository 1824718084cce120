// How long a world of many hosts takes to form, and to form again without one of them, in virtual time.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "core/command_line/version.h"
#include "core/testing/sim/simulation.h"
#include "launch/agents/agent.h"
#include "launch/cli/run.h"
#include "launch/tests/sim/training.h"

namespace xoe::launch::sim_tests {
namespace {

int xoe_program(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (words.at(0) == "agent") return run_agent(std::string(command_line::version()));
  return tools::run(std::span(words).subspan(1));
}

std::string write_secret() {
  constexpr std::string_view kSecret = "a secret that only the simulated members know";
  const int fd = ::memfd_create("secret", 0);
  if (fd < 0 || ::write(fd, kSecret.data(), kSecret.size()) != std::ssize(kSecret) || ::fchmod(fd, 0600) != 0)
    std::abort();
  return fmt::format("/proc/self/fd/{}", fd);
}

double seconds(sim::Time time) { return static_cast<double>(time) / 1e9; }

struct Scale {
  int size;
  std::vector<sim::Host> hosts = {};
  std::vector<pid_t> members = {};

  // When the last of so many ranks of a world of this size has completed a step in it; -1: not within the time.
  sim::Time formed(int ranks, sim::Time since, sim::Time longest) {
    const sim::Time until = sim::now() + longest;
    while (sim::now() < until) {
      std::set<std::int64_t> done;
      for (auto one = journal->steps.rbegin(); one != journal->steps.rend() && one->at >= since; ++one)
        if (one->size == ranks) done.insert(one->pid);
      if (std::ssize(done) == ranks) {
        sim::Time last = 0;
        std::set<std::int64_t> seen;
        for (const auto& one : journal->steps)
          if (one.at >= since && one.size == ranks && seen.insert(one.pid).second) last = std::max(last, one.at);
        return last;
      }
      sim::sleep_for(20 * sim::kMilli);
    }
    return -1;
  }

  int run(const std::string& secret) {
    sim::add_program("xoe", &xoe_program);
    sim::add_program("training", &training);
    const std::vector<std::string> variables = {"PATH=/sim", "HOME=/nowhere", "XOE_ARENA_BYTES=16777216",
                                                "XOE_RENDEZVOUS_SECRET_FILE=" + secret,
                                                "XOE_PLUGIN_DIR=" XOE_SIM_PLUGINS};
    for (int i = 0; i < size; ++i)
      hosts.push_back(sim::add_host(fmt::format("h{}", i), fmt::format("10.0.{}.{}", i / 250, i % 250 + 1)));
    for (int i = 0; i < size; ++i)
      members.push_back(hosts[i].start(
          {"/sim/xoe", "run", "--rendezvous", "10.0.0.1:29500", "--node-rank", fmt::format("{}", i), "--nodes",
           fmt::format("{}:{}", size - 1, size), "-np", "1", "--restarts", "1000", "/sim/training", "1", "100000", "names"},
          variables));
    const sim::Time first = formed(size, 0, 200 * sim::kSecond);
    std::printf("%d hosts: the first step of all after %.3f s\n", size, seconds(first));
    std::fflush(stdout);
    if (first < 0) return tell(), 1;
    sim::sleep_for(3 * sim::kSecond);
    const sim::Time killed = sim::now();
    pid_t rank = 0;
    for (const auto& one : sim::running())
      if (one.host == hosts[size / 2].name()) sim::signal_process(one.pid, SIGKILL), rank = one.pid;
    const sim::Time again = formed(size - 1, killed, 60 * sim::kSecond);
    std::printf("%d hosts: the step of all others after %.3f s (%d), %llu calls\n", size, seconds(again - killed), rank, (unsigned long long)sim::calls());
    std::fflush(stdout);
    if (again < 0 || std::getenv("TELL") != nullptr) { std::printf("killed at %.3f\n", seconds(killed)); tell(); for (const auto& one : journal->steps) if (one.at >= killed - sim::kSecond / 5) std::printf("step %lld rank %lld of %lld at %.4f\n", (long long)one.step, (long long)one.rank, (long long)one.size, seconds(one.at)); }
    return again < 0;
  }
  void tell() const {
    for (const auto& host : hosts) std::printf("%s:\n%s\n", host.name().c_str(), host.output().c_str());
  }
};

}  // namespace
}  // namespace xoe::launch::sim_tests

int main(int argc, char** argv) {
  using namespace xoe::launch::sim_tests;
  xoe::sim::fix_addresses(argv);
  journal = new Journal;
  Scale scale{.size = argc > 1 ? std::atoi(argv[1]) : 4};
  const std::string secret = write_secret();
  xoe::sim::Options options;
  options.slow_message = 0;
  options.jitter = 50'000;
  options.latency = 50'000;
  options.preempt = 0.001;
  options.short_read = 0;
  options.parallel = true;
  return xoe::sim::simulate(options, [&] { return scale.run(secret); });
}

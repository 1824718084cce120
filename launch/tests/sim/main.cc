// First light.
#include <unistd.h>
#include <signal.h>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "core/testing/sim/simulation.h"
#include "launch/agents/agent.h"
#include "launch/cli/run.h"
#include "core/command_line/version.h"

namespace {
using namespace xoe;

int xoe_program(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  const std::span all(words);
  if (words.at(0) == "agent") return launch::run_agent(std::string(command_line::version()));
  return tools::run(all.subspan(1));
}

int rank(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 10;
  for (int i = 0; i < steps; ++i) {
    std::string line = "step " + std::to_string(i) + " of rank " + (getenv("XOE_RANK") ? getenv("XOE_RANK") : "?") + "\n";
    if (::write(1, line.data(), line.size()) < 0) return 1;
    ::usleep(100000);
  }
  return 0;
}
}  // namespace

int main(int argc, char** argv) {
  sim::fix_addresses(argv);
  sim::Options options;
  options.seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const bool kills = argc > 2;
  return sim::simulate(options, [&] {
    sim::add_program("xoe", xoe_program);
    sim::add_program("rank", rank);
    const auto a = sim::add_host("a", "10.0.0.1");
    const pid_t pid = a.start({"/sim/xoe", "run", "-np", "2", "/sim/rank", "20"}, {"PATH=/sim", "HOME=/tmp"});
    if (kills) {
      sim::sleep_for(700 * sim::kMilli);
      for (const auto& one : sim::running())
        if (one.name == "rank") { sim::signal_process(one.pid, SIGKILL); break; }
    }
    const bool ended = sim::wait_for_end(pid, 60 * sim::kSecond);
    std::printf("%s", a.output().c_str());
    std::printf("ended %d status %x at %.3f s, %llu calls, digest %llx, running %zu\n", ended, static_cast<unsigned>(sim::facts_of(pid).status),
                static_cast<double>(sim::now()) / 1e9, static_cast<unsigned long long>(sim::calls()), static_cast<unsigned long long>(sim::digest()), sim::running().size());
    std::fflush(stdout);
    ::_exit(0);
    return 0;
  });
}

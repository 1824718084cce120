// First light.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include "core/command_line/version.h"
#include "core/testing/sim/simulation.h"
#include "launch/agents/agent.h"
#include "launch/cli/run.h"
#include "launch/tests/sim/training.h"

namespace {
using namespace xoe;
using namespace launch::sim_tests;

int xoe_program(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  const std::span all(words);
  if (words.at(0) == "agent") return launch::run_agent(std::string(command_line::version()));
  return tools::run(all.subspan(1));
}
}  // namespace

int main(int argc, char** argv) {
  sim::fix_addresses(argv);
  sim::Options options;
  options.seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const std::string mode = argc > 2 ? argv[2] : "plain";
  const std::string plugins = argc > 3 ? argv[3] : "";
  journal = new Journal;
  return sim::simulate(options, [&] {
    sim::add_program("xoe", xoe_program);
    sim::add_program("training", training);
    std::vector<sim::Host> hosts;
    std::vector<pid_t> members;
    const std::vector<std::string> env = {"PATH=/sim", "HOME=/tmp", "XOE_RENDEZVOUS_SECRET_FILE=/tmp/sim-secret",
                                          "XOE_PLUGIN_DIR=" + plugins, "XOE_ARENA_BYTES=16777216"};
    const int count = mode.rfind("one", 0) == 0 ? 1 : 3;
    for (int i = 0; i < count; ++i) {
      hosts.push_back(sim::add_host(std::string("h") + std::to_string(i), "10.0.0." + std::to_string(i + 1)));
      if (mode.rfind("one", 0) == 0)
        members.push_back(hosts[0].start({"/sim/xoe", "run", "-np", "3", "--min-np", "1", "/sim/training", "1"}, env));
      else
        members.push_back(hosts.back().start({"/sim/xoe", "run", "--rendezvous", "10.0.0.1:29500", "--node-rank",
                                              std::to_string(i), "--nodes", "1:3", "-np", "2", "--restarts", "5", "/sim/training", "1"},
                                             env));
    }
    sim::sleep_for(3 * sim::kSecond);
    if (mode.find("kill") != std::string::npos) {
      std::vector<pid_t> ranks;
      for (const auto& one : sim::running())
        if (one.name == "training") ranks.push_back(one.pid);
      const pid_t victim = ranks.empty() ? 0 : ranks[sim::draw(ranks.size())];
      std::printf("kills %d of %zu at %.3f\n", victim, ranks.size(), double(sim::now()) / 1e9);
      if (victim) sim::signal_process(victim, SIGKILL);
    }
    sim::sleep_for(3 * sim::kSecond);
    journal->stop = true;
    bool ended = true;
    for (const pid_t pid : members) ended = sim::wait_for_end(pid, 60 * sim::kSecond) && ended;
    for (const auto& host : hosts) std::printf("--- %s\n%s", host.name().c_str(), host.output().c_str());
    std::printf("%zu steps, %zu ends; ended %d at %.3f s, %llu calls, digest %llx, running %zu, status", journal->steps.size(), journal->ends.size(), ended,
                static_cast<double>(sim::now()) / 1e9, static_cast<unsigned long long>(sim::calls()),
                static_cast<unsigned long long>(sim::digest()), sim::running().size());
    for (const pid_t pid : members) std::printf(" %x", static_cast<unsigned>(sim::facts_of(pid).status));
    std::printf("\n");
    std::fflush(stdout);
    ::_exit(0);
    return 0;
  });
}

// The cost of agreeing on the order of a step's tensors, by number of hosts: real coordinators exchange messages in one
// process; the program counts messages and measures the processor time of each coordinator.
//   xoe_simulate_negotiation [--hosts MAX] [--tensors N] [--bursts N] [--fanout N]
// Prints a Markdown table. A step's tensors become ready on all hosts in bursts, each decided before the next.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/negotiate/coordinator.h"

namespace {

using xoe::engine::Coordinator;
using xoe::engine::CoordinatorOptions;

struct Setting {
  int hosts = 16384;
  int tensors = 1000;
  int bursts = 10;
  int fanout = CoordinatorOptions().fanout;
};

struct Traffic {
  std::size_t messages = 0;  // sent and received
  std::size_t bytes = 0;
  double cpu_us = 0;
};

double cpu_us() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

struct Cost {
  std::vector<Traffic> hosts;
  int hops = 0;  // of the slowest burst
};

class Simulation {
 public:
  Simulation(int hosts, const Setting& setting) : setting_(setting) {
    for (int host = 0; host < hosts; ++host)
      coordinators_.emplace_back(host, hosts, CoordinatorOptions{.fanout = setting.fanout});
    for (int i = 0; i < setting.tensors; ++i)
      names_.push_back("layer" + std::to_string(i / 10) + ".conv" + std::to_string(i % 10) + ".weight");
  }

  enum Kind {
    kPlain,
    kExtra,      // with one tensor more at its end, as programs have before their first step
    kScattered,  // the tensors of a burst are far from each other, and the last one is missing
  };

  Cost step(Kind kind) {
    cost_ = Cost{.hosts = std::vector<Traffic>(coordinators_.size())};
    for (int burst = 0; burst < setting_.bursts; ++burst) {
      const int begin = kind == kScattered ? burst : setting_.tensors * burst / setting_.bursts;
      const int end = kind == kScattered ? setting_.tensors - 1 : setting_.tensors * (burst + 1) / setting_.bursts;
      for (Coordinator& coordinator : coordinators_) {
        for (int i = begin; i < end; i += kind == kScattered ? setting_.bursts : 1)
          coordinator.ready(names_[static_cast<std::size_t>(i)], 0x1234567890abcdefU,
                            "allreduce(float32, sum, [256, 256])");
        if (kind == kExtra && burst + 1 == setting_.bursts) coordinator.ready("at the start", 1, "broadcast");
      }
      cost_.hops = std::max(cost_.hops, decide_all());
    }
    return std::move(cost_);
  }

 private:
  struct Message {
    int from = 0;
    xoe::engine::Outgoing to;
  };

  // Runs a part of the host's work and adds its processor time to the host's cost.
  template <class Work>
  void timed(std::size_t host, Work&& work) {
    const double began = cpu_us();
    work(coordinators_[host]);
    cost_.hosts[host].cpu_us += cpu_us() - began;
  }

  void post(int host, std::vector<Message>& out) {
    std::vector<xoe::engine::Outgoing> messages;
    timed(static_cast<std::size_t>(host), [&](Coordinator& coordinator) { messages = coordinator.take_messages(); });
    for (auto& message : messages) {
      for (const int end : {host, message.to_host}) {
        ++cost_.hosts[static_cast<std::size_t>(end)].messages;
        cost_.hosts[static_cast<std::size_t>(end)].bytes += message.bytes.size();
      }
      out.push_back({host, std::move(message)});
    }
  }

  // One hop after the other until nothing moves; how many.
  int decide_all() {
    std::vector<Message> moving;
    for (int host = 0; host < static_cast<int>(coordinators_.size()); ++host) post(host, moving);
    for (int hops = 0;; ++hops) {
      timed(0, [](Coordinator& root) {
        root.flush(0);
        (void)root.take_decisions();
      });
      post(0, moving);
      if (moving.empty()) return hops;
      for (const Message& message : std::exchange(moving, {})) {
        timed(static_cast<std::size_t>(message.to.to_host), [&](Coordinator& coordinator) {
          if (const auto status = coordinator.receive(message.from, message.to.bytes); !status) {
            std::fprintf(stderr, "%s\n", status.error().message().c_str());
            std::exit(1);
          }
          (void)coordinator.take_decisions();
        });
        arrived_.push_back(message.to.to_host);
      }
      for (const int host : arrived_) post(host, moving);
      arrived_.clear();
    }
  }

  const Setting& setting_;
  std::deque<Coordinator> coordinators_;
  std::vector<std::string> names_;
  std::vector<int> arrived_;
  Cost cost_;
};

// Flat: if every host were a child of the root, with the messages of a leaf.
void print_row(int hosts, const char* phase, const Cost& cost) {
  Traffic sum, most;
  for (const Traffic& one : cost.hosts) {
    sum.messages += one.messages;
    sum.bytes += one.bytes;
    sum.cpu_us += one.cpu_us;
    most.messages = std::max(most.messages, one.messages);
    most.bytes = std::max(most.bytes, one.bytes);
  }
  const double count = static_cast<double>(cost.hosts.size());
  const Traffic& leaf = cost.hosts.back();
  const Traffic& root = cost.hosts.front();
  const std::size_t others = cost.hosts.size() - 1;
  std::printf("| %d | %s | %.1f | %zu | %.0f | %zu | %zu | %d | %zu | %zu | %.0f | %.0f |\n", hosts, phase,
              static_cast<double>(sum.messages) / count, most.messages, static_cast<double>(sum.bytes) / count,
              most.bytes, root.bytes, cost.hops, others * leaf.messages, others * leaf.bytes, sum.cpu_us / count,
              root.cpu_us);
}

void simulate(int hosts, const Setting& setting) {
  Simulation simulation(hosts, setting);
  print_row(hosts, "first", simulation.step(Simulation::kExtra));
  print_row(hosts, "known, scattered", simulation.step(Simulation::kScattered));
  print_row(hosts, "known", simulation.step(Simulation::kPlain));
  std::fflush(stdout);
}

bool parse(int argc, char** argv, Setting& setting) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    const int value = std::atoi(argv[i + 1]);
    int* target = option == "--hosts"     ? &setting.hosts
                  : option == "--tensors" ? &setting.tensors
                  : option == "--bursts"  ? &setting.bursts
                  : option == "--fanout"  ? &setting.fanout
                                          : nullptr;
    if (target == nullptr || value < 1) return false;
    *target = value;
  }
  return argc % 2 == 1;
}

}  // namespace

int main(int argc, char** argv) {
  Setting setting;
  if (!parse(argc, argv, setting)) {
    std::fprintf(stderr, "usage: xoe_simulate_negotiation [--hosts MAX] [--tensors N] [--bursts N] [--fanout N]\n");
    return 2;
  }
  std::printf("%d tensors a step, in %d bursts; %d children a host. Messages and bytes: sent and received, a step.\n\n",
              setting.tensors, setting.bursts, setting.fanout);
  std::puts(
      "| hosts | step | messages, mean | most | bytes, mean | most | root | hops | flat: root's messages | its bytes "
      "| CPU us, mean | root |");
  std::puts("|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
  for (int hosts = 1; hosts <= setting.hosts; hosts *= 4) simulate(hosts, setting);
  return 0;
}

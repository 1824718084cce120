// What happens in a simulated lab.
#include <signal.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "pool/tests/sim/lab.h"
#include "pool/tests/sim/world.h"

namespace xoe::pool::sim_tests {
namespace {

using sim::kSecond;

std::string whole_seconds(sim::Time time) { return fmt::format("{}s", std::max<sim::Time>(time / kSecond, 1)); }

}  // namespace

void Lab::plan(std::size_t index) {
  const Event& event = schedule_.events[index];
  actions_.emplace(sim::now() + event.at, [this, &event, index] {
    tell(fmt::format("{}: {}", index, to_text(event)));
    event.kind < Kind::kKillClient ? act(event) : fail(event);
  });
}

void Lab::act(const Event& event) {
  if (!hosts_[static_cast<std::size_t>(event.host)].is_on()) return;
  switch (event.kind) {
    case Kind::kRun:
    case Kind::kAcquire:
    case Kind::kReserve: return acquire(event);
    case Kind::kRenew: return change_lease(event, "renew", {"--for", whole_seconds(event.lasts)});
    case Kind::kRelease: return change_lease(event, "release", {});
    case Kind::kUnleased: return use_without_lease(event);
    case Kind::kAdopt: return adopt(event);
    case Kind::kRevoke:
      if (const auto open = ledger_.open(); !open.empty())
        command(0, folder_ + "/admin", "root",
                {"revoke", std::to_string(open[event.pick % open.size()]), "--why", "revoked in the simulation"});
      return;
    default:
      for (const char* verb : {"status", "usage"}) start_client(event, {verb});
      command(0, folder_ + "/admin", "root", {"events"});
  }
}

void Lab::acquire(const Event& event) {
  const bool runs = event.kind == Kind::kRun;
  std::vector<std::string> words = {runs ? "run" : "acquire",
                                    "--gpus",
                                    std::to_string(event.gpus),
                                    "--priority",
                                    std::to_string(event.priority),
                                    "--for",
                                    whole_seconds(runs ? event.lasts + 40 * kSecond : event.lasts)};
  if (event.wait && event.kind != Kind::kReserve) words.push_back("--wait");
  if (event.flag && !runs) words.push_back("--any-host");
  if (event.kind == Kind::kReserve) {
    const auto at = (wall(0) + event.from) / kSecond;
    words.insert(words.end(),
                 {"--at", fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(static_cast<std::time_t>(at)))});
  }
  std::string purpose;
  if (runs) words.insert(words.end(), {"--purpose", purpose = fmt::format("run {}", ++runs_)});
  if (runs)
    words.insert(words.end(),
                 {"--", "/sim/training", std::to_string(event.lasts / kSecond), event.busy ? "busy" : "idle"});
  start_client(event, std::move(words), std::move(purpose));
}

void Lab::change_lease(const Event& event, const char* verb, std::vector<std::string> more) {
  const auto& known = leases_[event.user];
  if (known.empty()) return;
  more.insert(more.begin(),
              {verb, std::to_string(known[known.size() - 1 - event.pick % std::min<std::size_t>(known.size(), 4)])});
  start_client(event, std::move(more));
}

void Lab::use_without_lease(const Event& event) {
  const sim::Host& host = hosts_[static_cast<std::size_t>(event.host)];
  const auto gpu =
      gpu_name(host.name(), static_cast<int>(event.pick % static_cast<std::uint64_t>(world->gpus[host.name()])));
  host.start({"/sim/training", std::to_string(event.lasts / kSecond), event.busy ? "busy" : "idle"},
             {"CUDA_VISIBLE_DEVICES=" + gpu, fmt::format("USER=u{}", event.user), "PATH=/sim"});
}

void Lab::adopt(const Event& event) {
  for (const auto& [pid, one] : world->computing) {
    if (one.lease != 0 || sim::facts_of(pid).ended || sim::variable_of(pid, "USER") != fmt::format("u{}", event.user))
      continue;
    start_client(event, {"adopt", *one.gpus.begin(), "--for", "60s"});
    return;
  }
}

void Lab::fail(const Event& event) {
  switch (event.kind) {
    case Kind::kKillClient:
      if (event.flag) {
        kills_next_ = 1 + event.from / 10'000;  // 40 ms at most
        return;
      }
      return signal_client(event, SIGKILL);
    case Kind::kEndClient: return signal_client(event, SIGTERM);
    case Kind::kKillProgram: return kill_program(event);
    case Kind::kKillServer: return end_service(server_, SIGKILL, event.lasts);
    case Kind::kEndServer: return end_service(server_, SIGTERM, event.lasts);
    case Kind::kKillAgent: return end_service(agents_[static_cast<std::size_t>(event.host)], SIGKILL, event.lasts);
    case Kind::kCut:
    case Kind::kHalfCut: return cut(event);
    case Kind::kPause: return pause(event);
    case Kind::kStop: return stop_process(event);
    case Kind::kSwitchOff: return switch_off(event);
    default: return jump(event);
  }
}

void Lab::end_service(Service& service, int signal, sim::Time lasts) {
  if (sim::facts_of(service.pid).ended) return;
  service.may_end = true;
  service.back_at = sim::now() + lasts;
  sim::signal_process(service.pid, signal);
}

// One that waits in the queue, where there is one, or any.
void Lab::signal_client(const Event& event, int signal) {
  std::vector<pid_t> there, waiting;
  for (const Client& client : clients_) {
    if (sim::facts_of(client.pid).ended) continue;
    there.push_back(client.pid);
    const std::string said = sim::output_of(client.pid);
    if (said.find("in the queue") != std::string::npos && said.find("export XOE") == std::string::npos &&
        said.find("pool run: lease") == std::string::npos)
      waiting.push_back(client.pid);
  }
  const auto& chosen = waiting.empty() || event.pick % 3 == 0 ? there : waiting;
  if (!chosen.empty()) sim::signal_process(chosen[event.pick % chosen.size()], signal);
}

void Lab::kill_program(const Event& event) {
  std::vector<pid_t> there;
  for (const auto& one : sim::running())
    if (one.name == "training") there.push_back(one.pid);
  if (!there.empty()) sim::signal_process(there[event.pick % there.size()], SIGKILL);
}

// What happens twice at a time ends when both are over.
void Lab::hold(const std::string& what, sim::Time lasts, const std::function<void(bool)>& set) {
  if (held_[what]++ == 0) set(true);
  after(lasts, [this, what, set] {
    if (--held_[what] == 0) set(false);
  });
}

void Lab::stop_process(const Event& event) {
  std::vector<pid_t> there;
  for (const auto& one : sim::running()) there.push_back(one.pid);
  if (there.empty()) return;
  const pid_t pid = there[event.pick % there.size()];
  tell(fmt::format("  that is {} (pid {}) on {}", sim::facts_of(pid).name, pid, sim::facts_of(pid).host));
  hold(fmt::format("process {}", pid), event.lasts, [this, pid](bool stops) {
    sim::signal_process(pid, stops ? SIGSTOP : SIGCONT);
    stops ? void(stopped_.insert(pid)) : void(stopped_.erase(pid));
  });
}

void Lab::cut(const Event& event) {
  const auto index = static_cast<std::size_t>(event.host);
  const auto set = [this, index](bool from) {
    return [this, index, from](bool cuts) {
      cuts ? void(cut_.insert(index)) : void(cut_.extract(index));
      from ? sim::cut_link(hosts_[index], hosts_[0], cuts) : sim::cut_link(hosts_[0], hosts_[index], cuts);
    };
  };
  if (event.kind == Kind::kCut || event.flag) hold(fmt::format("from {}", index), event.lasts, set(true));
  if (event.kind == Kind::kCut || !event.flag) hold(fmt::format("to {}", index), event.lasts, set(false));
}

void Lab::pause(const Event& event) {
  const auto index = static_cast<std::size_t>(event.host);
  hold(fmt::format("host {}", index), event.lasts, [this, index](bool pauses) {
    hosts_[index].pause(pauses);
    pauses ? void(paused_.insert(index)) : void(paused_.erase(index));
  });
}

void Lab::switch_off(const Event& event) {
  const auto index = static_cast<std::size_t>(event.host);
  const sim::Host host = hosts_[index];
  if (!host.is_on()) return;
  host.switch_off();
  Service& service = index == 0 ? server_ : agents_[index];
  service.may_end = true;
  after(event.lasts, [this, host, index] {
    host.switch_on();
    if (index == 0 && ahead_[0] != 0) ledger_.lost_its_clock();
    tell(fmt::format("{} has power again", host.name()));
  });
}

void Lab::jump(const Event& event) {
  const auto index = static_cast<std::size_t>(event.host);
  hosts_[index].jump(event.lasts);
  ahead_[index] += event.lasts;
  if (index == 0) ledger_.jumped(event.lasts);
}

}  // namespace xoe::pool::sim_tests

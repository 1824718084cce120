#include "pool/server/metrics.h"

#include <fmt/format.h>

#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/base/prometheus.h"
#include "pool/core/drift.h"

namespace xoe::pool {
namespace {

using Label = std::pair<std::string_view, std::string_view>;

class Printer {
 public:
  void metric(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(std::back_inserter(text_), "# HELP xoe_pool_{0} {1}\n# TYPE xoe_pool_{0} {2}\n", name, help, type);
  }
  void sample(auto value, std::initializer_list<Label> labels = {}) {
    std::string all;
    for (const auto& [name, of] : labels)
      all += fmt::format("{}{}=\"{}\"", all.empty() ? "{" : ",", name, escape_label(of));
    fmt::format_to(std::back_inserter(text_), "xoe_pool_{}{}{} {}\n", name_, all, all.empty() ? "" : "}", value);
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
  std::string_view name_;
};

void print_gpus(Printer& out, const State& state) {
  std::map<std::string_view, int> uses;
  for (const std::string_view use : kGpuUseNames) uses[use] = 0;
  for (const auto& [uuid, gpu] : state.gpus) ++uses[name_of(state.use_of(gpu, state.holder_of(uuid)))];
  out.metric("gpus", "gauge", "GPUs by use; unleased: used by a process without a lease");
  for (const auto& [use, count] : uses) out.sample(count, {{"use", use}});
  const auto always = [](const GpuActivity&) { return true; };
  const auto of_each = [&](std::string_view name, std::string_view help, auto&& is_known, auto&& value) {
    out.metric(name, "gauge", help);
    for (const auto& [uuid, gpu] : state.gpus)
      if (const auto seen = state.activity.find(uuid); seen != state.activity.end() && is_known(seen->second))
        out.sample(value(gpu, seen->second), {{"gpu", uuid}, {"host", gpu.host}, {"name", gpu.name}});
  };
  of_each(
      "gpu_utilisation_ratio", "how much of the time it computed, from 0 to 1, where the driver tells it",
      [](const GpuActivity& seen) { return seen.utilisation.has_value(); },
      [](const Gpu&, const GpuActivity& seen) { return *seen.utilisation / 100.0; });
  of_each("gpu_memory_bytes", "memory of the GPU", always,
          [](const Gpu& gpu, const GpuActivity&) { return gpu.memory; });
  of_each("gpu_memory_used_bytes", "of it, in use", always,
          [](const Gpu&, const GpuActivity& seen) { return seen.memory_used; });
  of_each("gpu_temperature_celsius", "temperature; 0 where it is not known", always,
          [](const Gpu&, const GpuActivity& seen) { return seen.temperature; });
  out.metric("gpu_held", "gauge", "1 for each GPU of an open lease");
  for (const auto& [uuid, gpu] : state.gpus)
    if (const Lease* const lease = state.holder_of(uuid))
      out.sample(1, {{"gpu", uuid}, {"host", gpu.host}, {"user", lease->user}, {"team", lease->team}});
}

void print_leases(Printer& out, const State& state, Time now) {
  std::map<std::string_view, int> held;
  int open = 0;
  int waiting = 0;
  int idle = 0;
  Span longest{0};
  for (const auto& [id, lease] : state.leases) {
    if (lease.is_waiting()) {
      ++waiting;
      longest = std::max(longest, now - lease.asked);
    }
    if (!lease.is_open()) continue;
    ++open;
    if (lease.idle_phase != IdlePhase::kBusy) ++idle;
    held[lease.team] += static_cast<int>(lease.gpus.size());
  }
  out.metric("leases", "gauge", "leases that are open or wait");
  out.sample(open, {{"state", "open"}});
  out.sample(waiting, {{"state", "waiting"}});
  out.metric("idle_leases", "gauge", "open leases that were warned because they are idle");
  out.sample(idle);
  out.metric("longest_wait_seconds", "gauge", "since the oldest lease in the queue was asked for");
  out.sample(std::chrono::duration<double>(longest).count());
  out.metric("team_quota_gpus", "gauge", "GPUs that a team can count on");
  for (const auto& [name, team] : state.teams) out.sample(team.quota, {{"team", name}});
  out.metric("team_held_gpus", "gauge", "GPUs that leases of a team hold");
  for (const auto& [name, team] : state.teams) held.try_emplace(name, 0);
  for (const auto& [name, count] : held) out.sample(count, {{"team", name}});
}

void print_hosts(Printer& out, const State& state, Time now) {
  out.metric("host_online", "gauge", "1: its agent reports");
  for (const auto& [name, host] : state.hosts) out.sample(host.online ? 1 : 0, {{"host", name}});
  out.metric("host_silent_seconds", "gauge", "since the last report of its agent");
  for (const auto& [name, host] : state.hosts)
    out.sample(std::chrono::duration<double>(now - host.heard).count(), {{"host", name}});
  out.metric("drift", "gauge", "differences between leases and what is seen on the GPUs");
  out.sample(find_drift(state, now).size());
}

void print_server(Printer& out, const ServerCounters& counters, const ServerFacts& facts) {
  out.metric("turns_total", "counter", "turns since the server started: each is one transaction");
  out.sample(facts.turns);
  out.metric("http_answers_total", "counter", "answers since the server started, by the class of their status");
  for (std::size_t digit = 1; digit < counters.answers.size(); ++digit)
    out.sample(counters.answers[digit].load(), {{"status", fmt::format("{}xx", digit)}});
  out.metric("streams", "gauge", "streams of events that are open");
  out.sample(facts.streams);
  out.metric("streams_dropped_total", "counter", "streams whose client was gone or read too slowly");
  out.sample(counters.streams_dropped.load());
  if (counters.notices == nullptr) return;
  out.metric("notices_total", "counter", "notices to webhooks and by mail");
  out.sample(counters.notices->sent.load(), {{"result", "sent"}});
  out.sample(counters.notices->lost.load(), {{"result", "lost"}});
}

}  // namespace

std::string metrics_text(const Pool& pool, const ServerCounters& counters, const ServerFacts& facts, Time now) {
  Printer out;
  print_gpus(out, pool.state());
  print_leases(out, pool.state(), now);
  print_hosts(out, pool.state(), now);
  print_server(out, counters, facts);
  return std::move(out).text();
}

}  // namespace xoe::pool

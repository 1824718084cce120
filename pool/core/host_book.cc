#include "pool/core/host_book.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "pool/core/drift.h"
#include "pool/core/limits.h"

namespace xoe::pool {
namespace {

// Adds what one report does not say: what earlier reports said, and what has happened since the agent looked.
void add_history(const State& state, const Gpu& gpu, const GpuActivity& before, Time looked, GpuActivity& seen) {
  if (before.stale_since > looked) seen.stale_since = before.stale_since;
  const bool is_by_lease = seen.is_stale() || state.holder_of(gpu.uuid) != nullptr;
  if (!is_by_lease && before.worked > looked - kPause) seen.worked = before.worked;
  if (!is_by_lease && state.works_unlisted(gpu)) seen.worked = looked;
}

void take_activity(State& state, const HostReport& report, Time now) {
  std::map<std::string, GpuActivity, std::less<>> before;
  for (const auto& [uuid, gpu] : state.gpus)
    if (gpu.host == report.host) before.insert(state.activity.extract(uuid));
  for (std::size_t i = 0; i < report.gpus.size(); ++i) {
    GpuActivity& seen = state.activity[report.gpus[i].uuid] = report.activity[i];
    seen.worked.reset();
    add_history(state, state.gpus.at(report.gpus[i].uuid), before[report.gpus[i].uuid], now - report.age, seen);
    // It is about to be closed to the one who held it before.
    const Lease* const lease = seen.open_to ? state.holder_of(report.gpus[i].uuid) : nullptr;
    if (seen.open_to)
      std::erase_if(*seen.open_to, [&](const std::string& user) { return lease == nullptr || lease->user != user; });
  }
  std::erase_if(state.vms, [&](const auto& item) { return item.second.host == report.host; });
  for (const Vm& vm : report.vms) state.vms[vm.name] = vm;
}

// Who uses a GPU, without what changes with each report: processes and figures.
std::string users_text(const GpuActivity& seen) {
  std::set<std::string_view> users;
  for (const GpuProcess& process : seen.processes)
    users.insert(process.user.empty() ? std::string_view("?") : std::string_view(process.user));
  if (users.empty()) return "processes that are not listed";
  constexpr std::size_t kNamed = 8;
  const auto end = std::next(users.begin(), static_cast<std::ptrdiff_t>(std::min(kNamed, users.size())));
  const std::string more = users.size() > kNamed ? fmt::format(" and {} more", users.size() - kNamed) : "";
  return fmt::format("{}{}", fmt::join(users.begin(), end, " "), more);
}

// `recently`: a rival that has not reported since then is gone.
std::string problem_of(const Host& host, const HostReport& report, Time recently) {
  if (host.rival.empty() || host.rival_heard < recently) return report.problem;
  return fmt::format("another machine reports under this name, and is refused{}{}", report.problem.empty() ? "" : "; ",
                     report.problem);
}

}  // namespace

bool RecentLines::take(std::string line, Time now) {
  const auto is_over = [&](const auto& item) { return now - item.second >= kLinePause || now < item.second; };
  if (const auto told = told_.find(line); told != told_.end() && !is_over(*told)) return false;
  if (told_.size() >= kMostRecentLines) std::erase_if(told_, is_over);
  if (told_.size() >= kMostRecentLines) told_.clear();
  told_[std::move(line)] = now;
  return true;
}

void RecentLines::move_times(Span by) {
  for (auto& [line, at] : told_) at += by;
}

Status HostBook::take(const Turn& turn, const HostReport& report, std::string_view agent) {
  XOE_TRY(check_report(turn.state, report, agent, turn.now));
  XOE_TRY(check_machine(turn, report));
  XOE_TRY(make_room(turn, report));
  XOE_TRY(save_facts(turn, report, agent));
  Host& host = turn.state.hosts.at(report.host);
  if (!host.online) {
    XOE_TRY(turn.journal.log("pool", "host-online", 0, host.name, fmt::format("{} GPUs", report.gpus.size())));
    host.heard = turn.now;
    XOE_TRY(turn.journal.kept(turn.journal.store().save(host)));
  }
  host.heard = turn.now;
  host.online = true;
  host.machine = report.machine;
  host.problem = problem_of(host, report, turn.now - turn.state.policy.host_timeout);
  take_activity(turn.state, report, turn.now);
  for (const Gpu& gpu : report.gpus) XOE_TRY(note_unleased(turn, gpu));
  missing_.observe(turn.state, report, turn.now);
  for (const std::string& uuid : missing_.expired(turn.state, host.name, turn.now))
    XOE_TRY(
        forget_gpu(turn, uuid, "pool", fmt::format("{} has not had it for {}", host.name, span_text(kForgetAfter))));
  return {};
}

// Two machines with one name would take each other's GPUs away with each report. The one that was there stays, until it
// is silent for so long that it counts as offline.
Status HostBook::check_machine(const Turn& turn, const HostReport& report) {
  const auto found = turn.state.hosts.find(report.host);
  if (report.machine.empty() || found == turn.state.hosts.end()) return {};
  Host& host = found->second;
  if (host.machine.empty() || host.machine == report.machine) return {};
  if (turn.now - host.heard > turn.state.policy.host_timeout) {
    host.rival.clear();
    return {};
  }
  // Once, however many they are, until there was none for a while.
  const bool is_news = host.rival.empty() || turn.now - host.rival_heard > turn.state.policy.host_timeout;
  host.rival_heard = turn.now;
  host.rival = report.machine;
  if (is_news)
    XOE_TRY(turn.journal.log("pool", "host-name-taken", 0, report.host,
                             "another machine reports under this name; its reports are refused"));
  return failure(Code::kResourceExhausted,
                 "another machine reports as host {} to this pool: give this one a name of its own (xoe pool agent "
                 "--host NAME), or end the other agent and wait for {}",
                 report.host, span_text(turn.state.policy.host_timeout));
}

Status HostBook::watch(const Turn& turn) {
  for (auto& [name, host] : turn.state.hosts) {
    if (!host.online || turn.now - host.heard <= turn.state.policy.host_timeout) continue;
    host.online = false;
    XOE_TRY(turn.journal.log("pool", "host-offline", 0, name,
                             fmt::format("silent for {}", span_text(turn.now - host.heard))));
    XOE_TRY(turn.journal.kept(turn.journal.store().save(host)));
  }
  return {};
}

// A fact that has just changed, and changes again, is taken a while later.
Status HostBook::save_facts(const Turn& turn, const HostReport& report, std::string_view agent) {
  const auto [host, is_new] = turn.state.hosts.try_emplace(report.host, Host{.name = report.host, .heard = turn.now});
  if (is_new || (host->second.without != report.without && recent_.take("host " + report.host, turn.now))) {
    XOE_TRY(turn.journal.log("pool", is_new ? "host" : "host-changed", 0, report.host,
                             report.without.empty() ? "it has GPUs" : "no GPUs: " + report.without));
    host->second.without = report.without;
    XOE_TRY(turn.journal.kept(turn.journal.store().save(host->second)));
  }
  if (!agent.empty() && host->second.agent != agent) {
    host->second.agent = agent;
    XOE_TRY(turn.journal.log(agent, "host-agent", 0, report.host, "reports of it are taken from this agent"));
    XOE_TRY(turn.journal.kept(turn.journal.store().save(host->second)));
  }
  for (Gpu gpu : report.gpus) {
    const auto known = turn.state.gpus.find(gpu.uuid);
    if (known != turn.state.gpus.end()) {  // a driver that does not tell a fact now has not changed it
      if (gpu.memory == 0) gpu.memory = known->second.memory;
      if (gpu.name.empty()) gpu.name = known->second.name;
      if (gpu.pci.empty()) gpu.pci = known->second.pci;
      if (known->second == gpu) continue;
      if (known->second.host == gpu.host && !recent_.take("gpu " + gpu.uuid, turn.now)) continue;
    }
    XOE_TRY(turn.journal.log("pool", known == turn.state.gpus.end() ? "gpu" : "gpu-changed", 0, gpu.uuid,
                             fmt::format("{} on {}", gpu.name, gpu.host)));
    turn.state.gpus[gpu.uuid] = gpu;
    XOE_TRY(turn.journal.kept(turn.journal.store().save(gpu)));
  }
  return {};
}

Status HostBook::forget_gpu(const Turn& turn, const std::string& uuid, std::string_view actor, std::string_view why) {
  turn.state.gpus.erase(uuid);
  turn.state.activity.erase(uuid);
  unleased_.erase(uuid);
  missing_.forget(uuid);
  XOE_TRY(turn.journal.log(actor, "gpu-forgotten", 0, uuid, why));
  return turn.journal.kept(turn.journal.store().remove_gpu(uuid));
}

// Forgets hosts and GPUs that are gone where the pool has no room for those of a report.
Status HostBook::make_room(const Turn& turn, const HostReport& report) {
  for (const std::string& host : hosts_to_forget_for(turn.state, report, turn.now))
    XOE_TRY(forget_host(turn, host, "pool", "it has been silent for long, and others need its place"));
  const auto fresh =
      std::ranges::count_if(report.gpus, [&](const Gpu& gpu) { return !turn.state.gpus.contains(gpu.uuid); });
  if (turn.state.gpus.size() + static_cast<std::size_t>(fresh) <= kMaxGpus) return {};
  for (const std::string& uuid : gpus_to_forget_for(turn.state, report, turn.now))
    XOE_TRY(
        forget_gpu(turn, uuid, "pool", "its host does not have it any more, or is gone, and others need its place"));
  return {};
}

Status HostBook::forget_host(const Turn& turn, const User& actor, const std::string& name) {
  const auto host = turn.state.hosts.find(name);
  if (host == turn.state.hosts.end()) return failure(Code::kInvalidArgument, "there is no host {}", name);
  if (const std::string why = why_host_stays(turn.state, host->second); !why.empty())
    return failure(Code::kInvalidArgument, "host {} cannot be forgotten: {}", name, why);
  return forget_host(turn, name, actor.name, {});
}

Status HostBook::forget_host(const Turn& turn, const std::string& name, std::string_view actor, std::string_view why) {
  std::vector<std::string> uuids;
  for (const auto& [uuid, gpu] : turn.state.gpus)
    if (gpu.host == name) uuids.push_back(uuid);
  for (const std::string& uuid : uuids) XOE_TRY(forget_gpu(turn, uuid, actor, "host " + name + " was forgotten"));
  turn.state.hosts.erase(name);
  std::erase_if(turn.state.vms, [&](const auto& item) { return item.second.host == name; });
  XOE_TRY(turn.journal.log(actor, "host-forgotten", 0, name, why));
  return turn.journal.kept(turn.journal.store().remove_host(name));
}

Status HostBook::note_unleased(const Turn& turn, const Gpu& gpu) {
  const bool used = turn.state.is_used_without_lease(gpu);
  const std::string users = used ? users_text(turn.state.activity.at(gpu.uuid)) : std::string();
  std::string& before = unleased_[gpu.uuid];
  if (before == users || !recent_.take(gpu.uuid + " " + users, turn.now)) return {};
  before = users;
  return used ? turn.journal.log("pool", "unleased-use", 0, gpu.uuid,
                                 "in use without a lease by " + use_text(turn.state.activity.at(gpu.uuid)))
              : turn.journal.log("pool", "unleased-use-over", 0, gpu.uuid, {});
}

}  // namespace xoe::pool

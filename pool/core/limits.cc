#include "pool/core/limits.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "pool/core/forget.h"
#include "pool/core/names.h"
#include "pool/core/targets.h"
#include "pool/model/fields.h"
#include "pool/scheduler/plan.h"

namespace xoe::pool {
namespace {

// GPUs that are named, so that the database is not filled with names of GPUs that do not exist.
Status check_exact(const LeaseRequest& request) {
  if (request.exact.empty()) return {};
  if (request.exact.size() != static_cast<std::size_t>(request.gpus))
    return failure(Code::kInvalidArgument, "exact: {} named, {} wanted", counted(std::ssize(request.exact), "GPU"),
                   request.gpus);
  std::vector<std::string> names = request.exact;
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    return failure(Code::kInvalidArgument, "exact: {} is named twice", *twice);
  return {};
}

Status check_known(const State& state, const LeaseRequest& request) {
  for (const std::string& uuid : request.exact)
    if (!state.gpus.contains(uuid)) return failure(Code::kInvalidArgument, "the pool has no GPU {}", uuid);
  return {};
}

// Whether this agent may not tell of what that one tells of.
bool is_of_another(const State& state, const Host& host, std::string_view agent) {
  return !agent.empty() && !host.agent.empty() && host.agent != agent && state.users.contains(host.agent);
}

// The limits hold for all reports together. GPUs and hosts that are gone make room.
Status check_room(const State& state, const HostReport& report, Time now) {
  const std::vector<std::string> gone = hosts_to_forget_for(state, report, now);
  if (!state.hosts.contains(report.host) && state.hosts.size() - gone.size() >= kMaxHosts)
    return failure(Code::kResourceExhausted,
                   "the pool has room for {} hosts; an admin makes some with `xoe pool forget HOST`", kMaxHosts);
  const auto others = std::ranges::count_if(state.vms, [&](const auto& item) {
    return item.second.host != report.host && std::ranges::count(gone, item.second.host) == 0;
  });
  if (static_cast<std::size_t>(others) + report.vms.size() > kMaxVms)
    return failure(Code::kResourceExhausted, "the pool has room for {} VMs", kMaxVms);
  const auto fresh = std::ranges::count_if(report.gpus, [&](const Gpu& gpu) { return !state.gpus.contains(gpu.uuid); });
  const std::size_t all = state.gpus.size() + static_cast<std::size_t>(fresh);
  if (all <= kMaxGpus || all - gpus_to_forget_for(state, report, now).size() <= kMaxGpus) return {};
  return failure(Code::kResourceExhausted,
                 "the pool has room for {} GPUs, and this would be {}; an admin makes room with `xoe pool forget HOST`",
                 kMaxGpus, all);
}

// What the user and the team hold already counts, as it does for a lease that the pool grants.
Status check_held(const State& state, const User& user, const LeaseRequest& request) {
  std::int64_t by_user = request.gpus;
  std::int64_t by_team = request.gpus;
  for (const auto& [id, lease] : state.leases) {
    if (!lease.is_open()) continue;
    if (lease.user == user.name) by_user += std::ssize(lease.gpus);
    if (lease.team == user.team) by_team += std::ssize(lease.gpus);
  }
  if (user.max_gpus != 0 && by_user > user.max_gpus)
    return failure(Code::kResourceExhausted, "{} may hold {} at once, and would hold {}", user.name,
                   counted(user.max_gpus, "GPU"), by_user);
  const auto team = state.teams.find(user.team);
  if (team != state.teams.end() && !team->second.may_borrow && by_team > team->second.quota)
    return failure(Code::kResourceExhausted, "team {} has a quota of {}, may not borrow, and would hold {}", user.team,
                   counted(team->second.quota, "GPU"), by_team);
  return {};
}

}  // namespace

Status check_duration(const Policy& policy, Span duration) {
  if (duration >= std::chrono::seconds(1) && duration <= policy.max_duration) return {};
  return failure(Code::kInvalidArgument, "a lease lasts from 1 s to {}, not {}", span_text(policy.max_duration),
                 span_text(duration));
}

Status check_visible(std::string_view name, std::string_view text) {
  if (!has_hidden_characters(text)) return {};
  return failure(Code::kInvalidArgument,
                 "{}: it has characters that are hidden, control a terminal or turn the direction of text", name);
}

Status check_form(const LeaseRequest& request) {
  if (request.gpus < 1 || request.gpus > static_cast<int>(kMaxGpus))
    return failure(Code::kInvalidArgument, "gpus: {} is not between 1 and {}", request.gpus, kMaxGpus);
  if (request.type.size() > 64 || request.purpose.size() > kLongestPurpose)
    return failure(Code::kInvalidArgument, "{} is longer than {} characters",
                   request.type.size() > 64 ? "type" : "purpose", request.type.size() > 64 ? 64 : kLongestPurpose);
  if (request.host.size() > kLongestName || request.vm.size() > kLongestName)
    return failure(Code::kInvalidArgument, "{} is longer than {} bytes",
                   request.vm.size() > kLongestName ? "vm" : "host", kLongestName);
  for (const auto& [name, text] : {std::pair<const char*, const std::string&>("purpose", request.purpose),
                                   {"type", request.type},
                                   {"host", request.host},
                                   {"vm", request.vm}})
    XOE_TRY(check_visible(name, text));
  return check_exact(request);
}

Status check_request(const State& state, const User& user, const LeaseRequest& request, Time now) {
  XOE_TRY(check_duration(state.policy, request.duration));
  if (request.at && *request.at < now - kThisMinute)
    return failure(Code::kInvalidArgument, "at: {} is over", time_text(*request.at));
  if (request.at && *request.at > now + std::chrono::days(366))
    return failure(Code::kInvalidArgument, "at: {} is not within the next year", time_text(*request.at));
  XOE_TRY(check_known(state, request));
  if (request.priority > user.max_priority)
    return failure(Code::kResourceExhausted, "{} may ask with a priority of {} at most, not {}", user.name,
                   user.max_priority, request.priority);
  if (user.max_gpus != 0 && request.gpus > user.max_gpus)
    return failure(Code::kResourceExhausted, "{} may hold {} at once, not {}", user.name, counted(user.max_gpus, "GPU"),
                   request.gpus);
  const auto team = state.teams.find(user.team);
  if (team != state.teams.end() && !team->second.may_borrow && request.gpus > team->second.quota)
    return failure(Code::kResourceExhausted, "team {} has a quota of {} and may not borrow", user.team,
                   counted(team->second.quota, "GPU"));
  const auto waiting = std::ranges::count_if(
      state.leases, [&](const auto& item) { return item.second.is_waiting() && item.second.user == user.name; });
  if (waiting >= state.policy.max_waiting)
    return failure(Code::kResourceExhausted, "{} has {} leases waiting already; that is the most", user.name, waiting);
  return {};
}

Status check_adoption(const State& state, const User& user, const LeaseRequest& request) {
  if (request.exact.empty()) return failure(Code::kInvalidArgument, "adopt: name the GPUs by their UUIDs");
  if (request.at) return failure(Code::kInvalidArgument, "adopt: at: a lease of GPUs that are used already begins now");
  XOE_TRY(check_held(state, user, request));
  for (const std::string& uuid : request.exact) {
    const auto gpu = state.gpus.find(uuid);
    XOE_TRY(check_adoption_by_vm(state, request, gpu->second));
    if (const Lease* holder = state.holder_of(uuid))
      return failure(Code::kResourceExhausted, "{} holds {} (lease {})", holder->user, uuid, holder->id);
    const auto& processes = state.unleased_processes(gpu->second);
    if (processes.empty() && !state.is_used(gpu->second))
      return failure(Code::kInvalidArgument, "no process uses {}: acquire it instead", uuid);
    if (processes.empty() && user.role != Role::kAdmin)
      return failure(Code::kInvalidArgument,
                     "{} is used, but its driver does not list by which processes: only an admin can adopt it", uuid);
    for (const GpuProcess& process : processes)
      if (process.user != user.name && user.role != Role::kAdmin)
        return failure(Code::kInvalidArgument, "process {} on {} is not yours but of {}", process.pid, uuid,
                       process.user.empty() ? "an unknown user" : process.user);
  }
  return {};
}

Status check_promises(const State& state, const Lease& lease, Time until, Time now, std::string_view which) {
  const auto promise = promise_before(state, lease, until, now);
  if (!promise) return {};
  return failure(Code::kResourceExhausted, "{} cannot go on until {}: lease {} of {} starts at {}", which,
                 time_text(until), promise->lease, promise->user, time_text(promise->starts));
}

Status check_report(const State& state, const HostReport& report, std::string_view agent, Time now) {
  if (report.gpus.size() != report.activity.size())
    return failure(Code::kInvalidArgument, "a report with activity that belongs to no GPU");
  // One of an earlier version goes on.
  if (!is_name(report.host, kLongestName, kMoreOfHosts) && !state.hosts.contains(report.host))
    return failure(Code::kInvalidArgument,
                   "\"{}\" cannot be the name of a host: {}; `xoe pool agent --host NAME` gives it another",
                   printable_utf8(shortened_utf8(report.host, kLongestName)), name_rule(kLongestName, kMoreOfHosts));
  if (const auto host = state.hosts.find(report.host);
      host != state.hosts.end() && is_of_another(state, host->second, agent))
    return failure(Code::kInvalidArgument,
                   "host {} is reported by {}; an admin removes that user if {} shall take its place", report.host,
                   host->second.agent, agent);
  for (const Gpu& gpu : report.gpus) {
    const auto known = state.gpus.find(gpu.uuid);
    if (known == state.gpus.end() || known->second.host == report.host) continue;
    const auto other = state.hosts.find(known->second.host);
    const bool is_kept = other != state.hosts.end() && is_of_another(state, other->second, agent);
    if (is_kept || state.is_present(known->second))
      return failure(Code::kInvalidArgument, "{} is a GPU of host {}, not of {}", gpu.uuid, known->second.host,
                     report.host);
  }
  // Who may have leases for a VM is told by the agent of its vCenter.
  for (const Vm& vm : report.vms) {
    const auto known = state.vms.find(vm.name);
    if (known == state.vms.end() || known->second.host == report.host) continue;
    const auto other = state.hosts.find(known->second.host);
    if (other != state.hosts.end() && other->second.online && is_of_another(state, other->second, agent))
      return failure(Code::kInvalidArgument, "VM {} is reported by {}", vm.name, other->second.agent);
  }
  return check_room(state, report, now);
}

Status check_team(const State& state, const Team& team) {
  if (state.teams.size() >= kMaxTeams && !state.teams.contains(team.name))
    return failure(Code::kResourceExhausted, "the pool has room for {} teams", kMaxTeams);
  if (team.name.empty() || has_hidden_characters(team.name) ||
      std::string_view("=+-@./\\").find(team.name[0]) != std::string_view::npos)
    return failure(Code::kInvalidArgument,
                   "\"{}\" cannot be the name of a team: it is empty, begins with one of = + - @ . / \\, or has hidden "
                   "characters",
                   team.name);
  if (team.name.size() > kLongestName)
    return failure(Code::kInvalidArgument, "the name of a team is longer than {} bytes", kLongestName);
  if (team.quota < 0 || team.quota > static_cast<int>(kMaxGpus))
    return failure(Code::kInvalidArgument, "team \"{}\": a quota is a number from 0 to {}", team.name, kMaxGpus);
  return {};
}

Status check_user(const State& state, const User& user) {
  if (!is_name(user.name, kLongestUserName) || user.name == kPoolItself)
    return failure(Code::kInvalidArgument, "\"{}\" cannot be the name of a user: {}", user.name,
                   name_rule(kLongestUserName));
  if (!user.team.empty() && !state.teams.contains(user.team))
    return failure(Code::kInvalidArgument, "there is no team {}: `xoe pool team {} --quota N` makes it", user.team,
                   user.team);
  if (user.role == Role::kLead && user.team.empty())
    return failure(Code::kInvalidArgument, "{} needs a team to be the lead of", user.name);
  if (state.users.size() >= kMaxUsers && !state.users.contains(user.name))
    return failure(Code::kResourceExhausted, "the pool has room for {} users; `xoe pool user --remove` makes some",
                   kMaxUsers);
  const bool is_taken = std::ranges::any_of(state.users, [&](const auto& item) {
    return item.second.name != user.name && item.second.token_hash == user.token_hash;
  });
  if (is_taken) return failure(Code::kInvalidArgument, "token: another user has it");
  return {};
}

}  // namespace xoe::pool

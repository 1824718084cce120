#include "pool/server/json.h"

#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "pool/core/drift.h"
#include "pool/server/wire.h"

namespace xoe::pool {
namespace {

wire::ShownGpu shown(const Gpu& gpu, const State& state) {
  const Lease* const lease = state.holder_of(gpu.uuid);
  wire::ShownGpu shown{.gpu = gpu, .present = state.is_present(gpu), .use = state.use_of(gpu, lease)};
  if (lease != nullptr) shown.lease = lease->id;
  const auto seen = state.activity.find(gpu.uuid);
  if (seen == state.activity.end()) return shown;
  const GpuActivity& activity = seen->second;
  shown.utilisation = activity.utilisation;
  shown.temperature = activity.temperature;
  shown.memory_used = activity.memory_used;
  shown.open_to = activity.open_to;
  if (activity.processes_known) shown.processes = activity.processes;
  return shown;
}

void show_waiting(const Lease& lease, wire::ShownLease& shown) {
  shown.position = lease.position;
  shown.starts = describe::OrNull<Time>{lease.starts};
  shown.planned_gpus = lease.gpus;
  shown.at = lease.request.at;
}

void show_granted(const Lease& lease, const State& state, wire::ShownLease& shown) {
  shown.gpus = lease.gpus;
  auto& by_host = shown.gpus_by_host.emplace();
  for (const std::string& uuid : lease.gpus)
    if (const auto gpu = state.gpus.find(uuid); gpu != state.gpus.end()) by_host[gpu->second.host].push_back(uuid);
  shown.hosts.emplace();
  for (const auto& [host, gpus] : by_host) shown.hosts->push_back(host);
  shown.begins = lease.begins;
  shown.expires = lease.ends();
  shown.expiry_warned = lease.expiry_warned;
  if (!lease.is_open() || lease.idle_phase != IdlePhase::kBusy || state.is_seen(lease)) shown.idle = lease.idle_phase;
  if (lease.give_way) shown.give_way = {.by = {lease.give_way->by}, .for_lease = lease.give_way->for_lease};
  if (!lease.is_open()) {
    shown.ended = lease.ended;
    return;
  }
  shown.unclaimed = lease.unclaimed;
  shown.guarded = state.is_guarded(lease);
  shown.closed = state.is_closed_to_holder(lease);
  // The job that an allocation of Slurm has become.
  if (const auto seen = state.activity.find(lease.gpus.empty() ? std::string() : lease.gpus.front());
      lease.request.slurm && seen != state.activity.end() && !seen->second.processes.empty())
    shown.job = seen->second.processes.front().pid;
}

wire::ShownLease shown(const Lease& lease, const State& state) {
  wire::ShownLease shown{.lease = lease};
  if (lease.request.device_rule) shown.enforced = wire::Enforcement::kCgroup;
  if (lease.is_waiting())
    show_waiting(lease, shown);
  else
    show_granted(lease, state, shown);
  return shown;
}

wire::ReportedGpu reported(const Gpu& gpu, const GpuActivity& activity) {
  wire::ReportedGpu reported{.gpu = gpu,
                             .utilisation = activity.utilisation,
                             .temperature = activity.temperature,
                             .memory_used = activity.memory_used,
                             .open_to = activity.open_to};
  if (activity.processes_known) reported.processes = activity.processes;
  return reported;
}

GpuActivity activity_of(wire::ReportedGpu reported) {
  if (reported.processes)
    for (GpuProcess& process : *reported.processes) process.user = printable_utf8(process.user);
  return {.utilisation = reported.utilisation,
          .temperature = reported.temperature,
          .memory_used = reported.memory_used,
          .processes = reported.processes.value_or(std::vector<GpuProcess>()),
          .processes_known = reported.processes.has_value(),
          .open_to = std::move(reported.open_to)};
}

std::string not_a_vm_name(std::string_view name) {
  if (name.empty()) return "is empty";
  if (has_hidden_characters(name)) return "has hidden characters";
  return name.size() > kLongestName ? fmt::format("is longer than {} bytes", kLongestName) : std::string();
}

// By its name the agent of a vCenter finds a VM again, so that one cannot have another name here.
void take_vms(HostReport& report) {
  for (const Vm& vm : report.vms)
    if (const std::string why = not_a_vm_name(vm.name); !why.empty())
      report.add_problem(
          fmt::format("VM {} is left out: its name {}", printable_utf8(shortened_utf8(vm.name, 64)), why));
  std::erase_if(report.vms, [](const Vm& vm) { return !not_a_vm_name(vm.name).empty(); });
  for (Vm& vm : report.vms) {
    vm.host = report.host;
    vm.problem = printable_utf8(vm.problem);
    for (std::string& user : vm.users) user = printable_utf8(user);
  }
}

}  // namespace

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<Json> parse_object(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return failure(Code::kInvalidArgument, "the body of the request is not a JSON object");
  return json;
}

Json json_of(Time time) { return describe::to_seconds(time.time_since_epoch()); }

Json json_of(const Error& error) {
  return {{"code", code_name(error.code())}, {"message", printable_utf8(error.message())}};
}

Json json_of(const Lease& lease, const State& state) { return describe::to_json(shown(lease, state)); }

Json json_of(const Event& event) { return describe::to_json(event); }

Json json_of(const UsageRow& row) {
  const auto hours = [](Span span) { return describe::to_seconds(span) / 3600; };
  return describe::to_json(
      wire::ShownUsage{.row = row, .held = hours(row.held), .busy = hours(row.busy), .idle = hours(row.idle)});
}

Json status_json(const Pool& pool, Time now) {
  const State& state = pool.state();
  wire::Status status{.now = now, .drift = find_drift(state, now)};
  for (const auto& [name, host] : state.hosts) status.hosts.push_back(host);
  for (const auto& [name, vm] : state.vms) status.vms.push_back({vm});
  for (const auto& [uuid, gpu] : state.gpus) status.gpus.push_back(shown(gpu, state));
  std::map<int, wire::ShownLease> queue;
  std::map<std::string_view, int> held;
  for (const auto& [id, lease] : state.leases) {
    if (lease.is_waiting()) queue[lease.position] = shown(lease, state);
    if (!lease.is_open()) continue;
    held[lease.team] += static_cast<int>(lease.gpus.size());
    status.leases.push_back(shown(lease, state));
  }
  for (auto& [position, lease] : queue) status.queue.push_back(std::move(lease));
  for (const auto& [name, team] : state.teams) status.teams.push_back({.team = team, .held = held[name]});
  return describe::to_json(status);
}

Json json_of(const HostReport& report) {
  wire::Report told{.host = report.host,
                    .without = report.without,
                    .vms = report.vms,
                    .problem = report.problem,
                    .machine = report.machine,
                    .age = report.age};
  for (std::size_t i = 0; i < report.gpus.size(); ++i)
    told.gpus.push_back(reported(report.gpus[i], report.activity[i]));
  return describe::to_json(told);
}

Result<wire::Orders> orders_of(const Json& answer) {
  wire::Orders orders;
  XOE_TRY(describe::from_json(answer, orders, describe::Form::kAnswer));
  return orders;
}

Result<HostReport> report_of(const Json& json) {
  wire::Report told;
  XOE_TRY(describe::from_json(json, told));
  HostReport report{.host = told.host,
                    .machine = std::move(told.machine),
                    .without = printable_utf8(told.without),
                    .vms = std::move(told.vms),
                    .problem = printable_utf8(told.problem),
                    .age = told.age};
  for (wire::ReportedGpu& each : told.gpus) {
    if (each.gpu.uuid.find_first_of(", \n") != std::string::npos || has_hidden_characters(each.gpu.uuid))
      return failure(Code::kInvalidArgument, "uuid: {} is not that of a GPU", describe::shown(each.gpu.uuid));
    each.gpu.host = report.host;
    each.gpu.name = printable_utf8(each.gpu.name);
    each.gpu.pci = printable_utf8(each.gpu.pci);
    report.gpus.push_back(each.gpu);
    report.activity.push_back(activity_of(std::move(each)));
  }
  take_vms(report);
  return report;
}

}  // namespace xoe::pool

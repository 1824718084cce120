#include "pool/server/json.h"

#include <cmath>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "pool/core/drift.h"

namespace xoe::pool {
namespace {

constexpr double kMaxSeconds = 1e11;  // beyond the year 5000
constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMostProcesses = 4096;
constexpr std::size_t kMostVms = 4096;

double seconds_of(Span span) { return std::chrono::duration<double>(span).count(); }
Span span_of_seconds(double seconds) { return Span(static_cast<std::int64_t>(std::llround(seconds * 1000))); }

// Texts come from anybody, and go to terminals.
bool is_line(const Json& json) {
  if (!json.is_string() || json.get_ref<const std::string&>().size() > kMaxText) return false;
  return printable_utf8(json.get_ref<const std::string&>()) == json.get_ref<const std::string&>();
}

// A value in a message: short, and not by a recursion as deep as a request may be.
std::string shown(const Json& value) {
  if (value.is_structured()) return value.type_name();
  const std::string text = to_text(value);
  return text.size() <= 64 ? text : text.substr(0, 64) + "...";
}

// Takes the fields of an object one by one, and remembers the first mistake.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  template <class Number>
  void number(const char* name, Number& value, double low, double high) {
    const Json* const field = find(name);
    if (field == nullptr) return;
    const bool whole = std::is_integral_v<Number>;
    if (!field->is_number() || (whole && !field->is_number_integer()) || !(field->get<double>() >= low) ||
        !(field->get<double>() <= high)) {
      mistake(
          fmt::format("{}: {} is not a{} number from {} to {}", name, shown(*field), whole ? " whole" : "", low, high));
      return;
    }
    value = field->get<Number>();
  }
  void flag(const char* name, bool& value) {
    const Json* const field = find(name);
    if (field == nullptr) return;
    if (!field->is_boolean()) return mistake(fmt::format("{}: {} is neither true nor false", name, shown(*field)));
    value = field->get<bool>();
  }
  void text(const char* name, std::string& value) {
    const Json* const field = find(name);
    if (field == nullptr) return;
    if (!is_line(*field)) return mistake(fmt::format("{}: not one line of at most {} bytes of UTF-8", name, kMaxText));
    value = field->get<std::string>();
  }
  void texts(const char* name, std::vector<std::string>& values) {
    const Json* const field = find(name);
    if (field == nullptr) return;
    if (!field->is_array() || field->size() > kMaxGpus) return mistake(fmt::format("{}: not a list of texts", name));
    for (const Json& each : *field) {
      if (!is_line(each)) return mistake(fmt::format("{}: not a list of texts", name));
      values.push_back(each.get<std::string>());
    }
  }
  // The list's objects; none where it is missing.
  std::vector<const Json*> objects(const char* name, std::size_t most) {
    std::vector<const Json*> found;
    const Json* const field = find(name);
    if (field == nullptr) return found;
    if (!field->is_array() || field->size() > most) {
      mistake(fmt::format("{}: not a list of at most {} objects", name, most));
      return found;
    }
    for (const Json& each : *field) {
      if (!each.is_object())
        mistake(fmt::format("{}: not a list of objects", name));
      else
        found.push_back(&each);
    }
    return found;
  }
  void require(const char* name) {
    if (!json_.contains(name)) mistake(fmt::format("{} is missing", name));
  }
  void mistake(std::string what) {
    if (mistake_.empty()) mistake_ = std::move(what);
  }
  void ignore(const char* name) { known_.insert(name); }

  // After all fields were taken.
  Status done() {
    for (const auto& [name, value] : json_.items())
      if (!known_.contains(name)) mistake(fmt::format("unknown field \"{}\"", name.substr(0, 64)));
    if (mistake_.empty()) return {};
    return failure(Code::kInvalidArgument, std::string(mistake_));
  }

 private:
  const Json* find(const char* name) {
    known_.insert(name);
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }

  const Json& json_;
  std::set<std::string> known_;
  std::string mistake_;
};

// What a driver, a vCenter or Slurm told, as a report may have it.
std::string line_of(const std::string& text) {
  std::string line = printable_utf8(std::string_view(text).substr(0, kMaxText));
  if (line.size() > kMaxText) line = printable_utf8(std::string_view(text).substr(0, kMaxText / 3));
  return line;
}

std::vector<std::string> lines_of(const std::vector<std::string>& texts) {
  std::vector<std::string> lines;
  lines.reserve(texts.size());
  for (const std::string& text : texts) lines.push_back(line_of(text));
  return lines;
}

Json json_of(const GpuProcess& process) {
  return {{"pid", process.pid}, {"user", line_of(process.user)}, {"memory", process.memory}, {"cpus", process.cpu}};
}

Json processes_json(const GpuActivity& activity) {
  Json list = Json::array();
  for (const GpuProcess& process : activity.processes) list.push_back(json_of(process));
  return list;
}

Json json_of(const Vm& vm) {
  return {{"name", line_of(vm.name)},    {"running", vm.running},         {"reserved", vm.has_reserved},
          {"may_cycle", vm.may_cycle},   {"devices", vm.devices},         {"gpus", lines_of(vm.gpus)},
          {"users", lines_of(vm.users)}, {"problem", line_of(vm.problem)}};
}

Json gpu_json(const Gpu& gpu, const GpuActivity* activity) {
  Json json{{"uuid", line_of(gpu.uuid)}, {"host", gpu.host},     {"name", line_of(gpu.name)},
            {"pci", line_of(gpu.pci)},   {"memory", gpu.memory}, {"nvlinks", lines_of(gpu.nvlinks)}};
  if (activity == nullptr) return json;
  if (activity->utilisation) json["utilisation"] = *activity->utilisation;
  json["temperature"] = activity->temperature;
  json["memory_used"] = activity->memory_used;
  if (activity->open_to) json["open_to"] = lines_of(*activity->open_to);
  if (activity->processes_known) json["processes"] = processes_json(*activity);
  return json;
}

}  // namespace

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<Json> parse_object(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return failure(Code::kInvalidArgument, "the body of the request is not a JSON object");
  return json;
}

Json json_of(Time time) { return seconds_of(time.time_since_epoch()); }

Json json_of(const Error& error) { return {{"code", code_name(error.code())}, {"message", error.message()}}; }

Json json_of(const Lease& lease, const State& state) {
  Json json{{"id", lease.id},
            {"user", lease.user},
            {"team", lease.team},
            {"state", name_of(lease.state)},
            {"asked", json_of(lease.asked)},
            {"count", lease.request.gpus},
            {"priority", lease.request.priority},
            {"seconds", seconds_of(lease.request.duration)},
            {"purpose", lease.request.purpose},
            {"borrowed", lease.borrowed},
            {"yields", lease.request.yields},
            {"enforced", lease.request.device_rule ? "cgroup" : "environment"}};
  if (!lease.request.vm.empty()) json["vm"] = lease.request.vm;
  if (lease.request.slurm) json["slurm"] = true;
  if (!lease.why.empty()) json["why"] = lease.why;
  if (lease.is_waiting()) {
    json["position"] = lease.position;
    json["starts"] = lease.starts ? json_of(*lease.starts) : Json();
    json["planned_gpus"] = lease.gpus;
    if (lease.request.at) json["at"] = json_of(*lease.request.at);
    return json;
  }
  json["gpus"] = lease.gpus;
  std::map<std::string, std::vector<std::string>> by_host;
  for (const std::string& uuid : lease.gpus)
    if (const auto gpu = state.gpus.find(uuid); gpu != state.gpus.end()) by_host[gpu->second.host].push_back(uuid);
  json["hosts"] = Json::array();
  for (const auto& [host, gpus] : by_host) json["hosts"].push_back(host);
  json["gpus_by_host"] = by_host;
  json["begins"] = json_of(lease.begins);
  json["expires"] = json_of(lease.ends());
  json["expiry_warned"] = lease.expiry_warned;
  json["idle"] = name_of(lease.idle_phase);
  if (lease.is_open() && lease.unclaimed) json["unclaimed"] = true;
  if (lease.is_open() && state.is_guarded(lease)) json["guarded"] = true;
  if (lease.is_open() && state.is_closed_to_holder(lease)) json["closed"] = true;
  if (lease.give_way)
    json["give_way"] = {{"by", lease.give_way->by ? json_of(*lease.give_way->by) : Json()},
                        {"for", lease.give_way->for_lease}};
  if (!lease.is_open()) json["ended"] = json_of(lease.ended);
  // The job that an allocation of Slurm has become.
  if (const auto seen = state.activity.find(lease.gpus.empty() ? std::string() : lease.gpus.front());
      lease.request.slurm && lease.is_open() && seen != state.activity.end() && !seen->second.processes.empty())
    json["job"] = seen->second.processes.front().pid;
  return json;
}

Json json_of(const User& user, const Policy& policy) {
  return {{"name", user.name},
          {"team", user.team},
          {"role", name_of(user.role)},
          {"max_gpus", user.max_gpus},
          {"max_priority", user.max_priority},
          {"max_seconds", seconds_of(policy.max_duration)}};
}

Json json_of(const Event& event) {
  Json json{{"number", event.number}, {"at", json_of(event.at)},  {"actor", event.actor},
            {"kind", event.kind},     {"subject", event.subject}, {"why", event.why}};
  if (event.lease != 0) json["lease"] = event.lease;
  return json;
}

Json json_of(const UsageRow& row) {
  const auto hours = [](Span span) { return seconds_of(span) / 3600; };
  return {{"hour", json_of(row.hour)}, {"team", row.team},        {"user", row.user},
          {"held", hours(row.held)},   {"busy", hours(row.busy)}, {"idle", hours(row.idle)}};
}

Json status_json(const Pool& pool, Time now) {
  const State& state = pool.state();
  Json json{{"now", json_of(now)},    {"hosts", Json::array()}, {"gpus", Json::array()}, {"leases", Json::array()},
            {"queue", Json::array()}, {"drift", Json::array()}, {"teams", Json::array()}};
  for (const auto& [name, host] : state.hosts)
    json["hosts"].push_back({{"name", name},
                             {"online", host.online},
                             {"heard", json_of(host.heard)},
                             {"without", host.without},
                             {"machine", host.machine},
                             {"problem", host.problem}});
  json["vms"] = Json::array();
  for (const auto& [name, vm] : state.vms) {
    json["vms"].push_back(json_of(vm));
    json["vms"].back()["host"] = vm.host;
  }
  for (const auto& [uuid, gpu] : state.gpus) {
    const auto seen = state.activity.find(uuid);
    Json entry = gpu_json(gpu, seen == state.activity.end() ? nullptr : &seen->second);
    entry["present"] = state.is_present(gpu);
    if (const Lease* const lease = state.holder_of(uuid)) entry["lease"] = lease->id;
    json["gpus"].push_back(std::move(entry));
  }
  std::map<int, Json> queue;
  std::map<std::string_view, int> held;
  for (const auto& [id, lease] : state.leases) {
    if (lease.is_waiting()) queue[lease.position] = json_of(lease, state);
    if (!lease.is_open()) continue;
    held[lease.team] += static_cast<int>(lease.gpus.size());
    json["leases"].push_back(json_of(lease, state));
  }
  for (auto& [position, lease] : queue) json["queue"].push_back(std::move(lease));
  for (const Drift& drift : find_drift(state, now))
    json["drift"].push_back({{"gpu", drift.gpu}, {"host", drift.host}, {"lease", drift.lease}, {"what", drift.what}});
  for (const auto& [name, team] : state.teams)
    json["teams"].push_back(
        {{"name", name}, {"quota", team.quota}, {"may_borrow", team.may_borrow}, {"held", held[name]}});
  return json;
}

Json json_of(const HostReport& report) {
  Json json{{"host", line_of(report.host)}, {"without", line_of(report.without)}, {"gpus", Json::array()}};
  for (std::size_t i = 0; i < report.gpus.size(); ++i) {
    json["gpus"].push_back(gpu_json(report.gpus[i], &report.activity[i]));
    json["gpus"].back().erase("host");
  }
  if (!report.problem.empty()) json["problem"] = line_of(report.problem);
  if (!report.machine.empty()) json["machine"] = line_of(report.machine);
  if (report.vms.empty()) return json;
  for (const Vm& vm : report.vms) json["vms"].push_back(json_of(vm));
  return json;
}

Json json_of(const ClusterLease& lease) {
  return {{"id", lease.id},     {"user", lease.user},          {"host", lease.host},
          {"gpus", lease.gpus}, {"ends", json_of(lease.ends)}, {"seconds", seconds_of(lease.left)}};
}

Result<std::vector<ClusterLease>> cluster_leases_of(const Json& answer) {
  std::vector<ClusterLease> leases;
  Fields fields(answer);
  for (const Json* const each : fields.objects("leases", kMaxGpus)) {
    ClusterLease lease;
    double ends = 0;
    double seconds = 0;
    Fields of_lease(*each);
    of_lease.number("id", lease.id, 1, 1e15);
    of_lease.text("user", lease.user);
    of_lease.text("host", lease.host);
    of_lease.texts("gpus", lease.gpus);
    of_lease.number("ends", ends, 0, kMaxSeconds);
    of_lease.number("seconds", seconds, -kMaxSeconds, kMaxSeconds);
    XOE_TRY(of_lease.done());
    lease.ends = Time(span_of_seconds(ends));
    lease.left = span_of_seconds(seconds);
    leases.push_back(std::move(lease));
  }
  fields.ignore("end");
  XOE_TRY(fields.done());
  return leases;
}

Json json_of(const GpuHolder& holder) { return {{"gpu", holder.gpu}, {"user", holder.user}}; }

Result<std::map<std::string, std::set<std::string>>> holders_of(const Json& answer) {
  std::map<std::string, std::set<std::string>> holders;
  const auto listed = answer.find("holders");
  if (listed == answer.end()) return holders;
  if (!listed->is_array()) return failure(Code::kUnavailable, "holders: {} is no list", shown(*listed));
  for (const Json& each : *listed) {
    XOE_ASSIGN(const std::string gpu, text_field(each, "gpu"));
    XOE_ASSIGN(std::string user, text_field(each, "user"));
    holders[gpu].insert(std::move(user));
  }
  return holders;
}

Json json_of(const VmAssignment& assignment) {
  return {{"vm", assignment.vm},
          {"gpus", assignment.gpus},
          {"take_back", assignment.take_back},
          {"power_cycle", assignment.power_cycle}};
}

Result<std::vector<VmAssignment>> assignments_of(const Json& answer) {
  std::vector<VmAssignment> assignments;
  Fields fields(answer);
  for (const Json* const each : fields.objects("vms", kMostVms)) {
    VmAssignment assignment;
    Fields of_vm(*each);
    of_vm.require("vm");
    of_vm.text("vm", assignment.vm);
    of_vm.texts("gpus", assignment.gpus);
    of_vm.texts("take_back", assignment.take_back);
    of_vm.flag("power_cycle", assignment.power_cycle);
    XOE_TRY(of_vm.done());
    assignments.push_back(std::move(assignment));
  }
  fields.ignore("end");
  XOE_TRY(fields.done());
  return assignments;
}

Result<LeaseRequest> request_of(const Json& json) {
  LeaseRequest request;
  Fields fields(json);
  double seconds = seconds_of(request.duration);
  double at = -1;
  fields.number("gpus", request.gpus, 1, kMaxGpus);
  fields.text("type", request.type);
  fields.number("memory", request.memory, 0, 1e15);
  fields.flag("same_nvlink", request.same_nvlink);
  fields.flag("any_host", request.any_host);
  fields.text("host", request.host);
  fields.flag("yields", request.yields);
  fields.flag("device_rule", request.device_rule);
  fields.number("seconds", seconds, 0, kMaxSeconds);
  fields.number("priority", request.priority, -1000, 1000);
  fields.number("at", at, 0, kMaxSeconds);
  fields.flag("wait", request.wait);
  fields.text("purpose", request.purpose);
  fields.texts("exact", request.exact);
  fields.text("vm", request.vm);
  fields.flag("power_cycle", request.power_cycle);
  fields.flag("slurm", request.slurm);
  fields.ignore("token");
  XOE_TRY(fields.done());
  request.duration = span_of_seconds(seconds);
  if (at >= 0) request.at = Time(span_of_seconds(at));
  return request;
}

Result<HostReport> report_of(const Json& json) {
  HostReport report;
  Fields fields(json);
  fields.require("host");
  fields.text("host", report.host);
  fields.text("without", report.without);
  fields.text("problem", report.problem);
  fields.text("machine", report.machine);
  for (const Json* const each : fields.objects("gpus", kMaxGpus)) {
    Gpu gpu{.host = report.host};
    GpuActivity activity;
    Fields of_gpu(*each);
    of_gpu.require("uuid");
    of_gpu.text("uuid", gpu.uuid);
    if (gpu.uuid.find_first_of(", \n") != std::string::npos || gpu.uuid.empty())
      of_gpu.mistake("uuid: not that of a GPU");
    of_gpu.text("name", gpu.name);
    of_gpu.text("pci", gpu.pci);
    of_gpu.number("memory", gpu.memory, 0, 1e15);
    of_gpu.texts("nvlinks", gpu.nvlinks);
    int utilisation = 0;
    of_gpu.number("utilisation", utilisation, 0, 100);
    activity.utilisation = each->contains("utilisation") ? std::optional(utilisation) : std::nullopt;
    of_gpu.number("temperature", activity.temperature, -300, 1000);
    of_gpu.number("memory_used", activity.memory_used, 0, 1e15);
    if (each->contains("open_to")) of_gpu.texts("open_to", activity.open_to.emplace());
    activity.processes_known = each->contains("processes");
    for (const Json* const one : of_gpu.objects("processes", kMostProcesses)) {
      GpuProcess process;
      Fields of_process(*one);
      of_process.number("pid", process.pid, 0, std::numeric_limits<int>::max());
      of_process.text("user", process.user);
      of_process.number("memory", process.memory, 0, 1e15);
      of_process.number("cpus", process.cpu, 0, 1e6);
      XOE_TRY(of_process.done());
      activity.processes.push_back(std::move(process));
    }
    XOE_TRY(of_gpu.done());
    report.gpus.push_back(std::move(gpu));
    report.activity.push_back(std::move(activity));
  }
  for (const Json* const each : fields.objects("vms", kMostVms)) {
    Vm vm{.host = report.host};
    Fields of_vm(*each);
    of_vm.require("name");
    of_vm.text("name", vm.name);
    of_vm.flag("running", vm.running);
    of_vm.flag("reserved", vm.has_reserved);
    of_vm.flag("may_cycle", vm.may_cycle);
    of_vm.number("devices", vm.devices, 0, 1000);
    of_vm.texts("gpus", vm.gpus);
    of_vm.texts("users", vm.users);
    of_vm.text("problem", vm.problem);
    XOE_TRY(of_vm.done());
    report.vms.push_back(std::move(vm));
  }
  XOE_TRY(fields.done());
  return report;
}

Result<Team> team_of(const Json& json, Team before) {
  Team team = std::move(before);
  Fields fields(json);
  fields.require("name");
  fields.text("name", team.name);
  fields.number("quota", team.quota, 0, kMaxGpus);
  fields.flag("may_borrow", team.may_borrow);
  XOE_TRY(fields.done());
  return team;
}

Result<User> user_of(const Json& json, User before, bool& new_token) {
  User user = std::move(before);
  std::string role(name_of(user.role));
  Fields fields(json);
  fields.require("name");
  fields.text("name", user.name);
  fields.text("team", user.team);
  fields.text("role", role);
  fields.number("max_gpus", user.max_gpus, 0, kMaxGpus);
  fields.number("max_priority", user.max_priority, -1000, 1000);
  fields.flag("idle_exempt", user.idle_exempt);
  fields.flag("new_token", new_token);
  fields.ignore("token");
  if (const auto known = role_named(role))
    user.role = *known;
  else
    fields.mistake(fmt::format("role: {} is none of agent, user, lead, admin", role));
  XOE_TRY(fields.done());
  return user;
}

Status only_fields(const Json& json, std::initializer_list<const char*> names) {
  Fields fields(json);
  for (const char* const name : names) fields.ignore(name);
  return fields.done();
}

Result<Span> span_field(const Json& json, const char* field) {
  const auto found = json.find(field);
  if (found == json.end() || !found->is_number() || !(found->get<double>() > 0) || found->get<double>() > kMaxSeconds)
    return failure(Code::kInvalidArgument, "{}: a number of seconds is needed", field);
  return span_of_seconds(found->get<double>());
}

Result<std::string> text_field(const Json& json, const char* field) {
  const auto found = json.find(field);
  if (found == json.end() || !is_line(*found)) return failure(Code::kInvalidArgument, "{}: a text is needed", field);
  return found->get<std::string>();
}

}  // namespace xoe::pool

// xoe pool status, events, usage.
#include <fmt/format.h>

#include "core/base/text.h"
#include "core/command_line/parse/command_line.h"
#include "pool/cli/verbs.h"

namespace xoe::tools::pool {
namespace {

struct StatusOptions {
  Connection connection = {};
  std::optional<std::int64_t> after = {};
  int days = 7;
  bool csv = false;
};

using Rows = std::vector<std::vector<std::string>>;

// Columns as wide as their widest cell; the last one ends where it ends.
std::string table(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) text += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += row.back() + "\n";
  }
  return text;
}

// Of a GPU without a lease. An older server does not tell the use: then processes show that there is one, and nothing
// shows that there is none.
std::string use_text(const Json& gpu) {
  const Json* const processes = member_of(gpu, "processes");
  const std::string use = gpu.value("use", processes != nullptr && !processes->empty() ? "unleased" : "no lease");
  return use == "unleased" ? "in use without a lease" : use;
}

constexpr const char* kNotKnown = "not known";

// 0: the driver does not tell it.
std::string memory_text(const Json& gpu) {
  const auto bytes = gpu.at("memory").get<std::uint64_t>();
  return bytes == 0 ? kNotKnown : human_bytes(bytes);
}

std::string work_text(const Json& gpu) {
  const Json* const utilisation = member_of(gpu, "utilisation");
  return utilisation == nullptr ? kNotKnown : fmt::format("{} %", utilisation->get<int>());
}

// ", 3 h 59 min left"; empty: the end is not told.
std::string left_text(const Json& status, const Json& lease) {
  const Json* const expires = member_of(lease, "expires");
  if (expires == nullptr) return {};
  const double left = expires->get<double>() - status.at("now").get<double>();
  return fmt::format(", {} left", xoe::pool::span_text(Span(static_cast<std::int64_t>(left * 1000))));
}

std::string holder_text(const Json& status, const Json& gpu) {
  if (!gpu.at("present").get<bool>()) return "offline";
  if (!gpu.contains("lease")) return use_text(gpu);
  for (const Json& lease : status.at("leases")) {
    if (lease.at("id") != gpu.at("lease")) continue;
    const std::string purpose = lease.value("purpose", "");
    const std::string vm = lease.value("vm", "");
    return fmt::format("{} (lease {}{}{}){}", lease.at("user").get<std::string>(), id_of(lease),
                       vm.empty() ? "" : ", VM " + vm, left_text(status, lease), purpose.empty() ? "" : ": " + purpose);
  }
  return "leased";
}

// "  1. lease 5 of ann: 2 GPUs, starts at ...: why"
std::string waiting_text(const Json& lease) {
  const Json* const position = member_of(lease, "position");
  const Json* const starts = member_of(lease, "starts");
  return fmt::format("{:>3}. lease {} of {}: {}, {}: {}\n", position == nullptr ? "?" : position->dump(), id_of(lease),
                     lease.at("user").get<std::string>(), counted(lease.at("count").get<int>(), "GPU"),
                     starts == nullptr ? "start not known" : "starts at " + local_time(*starts),
                     lease.value("why", ""));
}

// How strongly leases hold.
std::string enforcement_text(const Json& leases) {
  std::map<std::string, std::vector<std::int64_t>> by;
  const auto how = [](const Json& lease) -> std::string {
    const bool guarded = lease.value("guarded", false);
    const std::string others = "file permissions; other users cannot open its GPUs";
    if (lease.at("enforced") == "cgroup")
      return "a device rule of a cgroup; its program cannot open other GPUs" + (guarded ? "; " + others : "");
    return guarded ? others : "environment only; a program that ignores it can use any GPU";
  };
  for (const Json& lease : leases) by[how(lease)].push_back(id_of(lease));
  std::string text;
  for (const auto& [what, ids] : by)
    text += fmt::format("{} {}: {}\n", ids.size() == 1 ? "lease" : "leases", fmt::join(ids, ", "), what);
  return text.empty() ? text : "\nenforced by:\n" + text;
}

Rows vm_rows(const Json& vms) {
  Rows rows = {{"VM", "host", "power", "GPUs", "for", "problem"}};
  for (const Json& vm : vms) {
    const std::vector<std::string> users = vm.at("users");
    rows.push_back({vm.at("name"), vm.at("host"), vm.at("running").get<bool>() ? "on" : "off",
                    std::to_string(vm.at("gpus").size()),
                    users.empty() ? "everyone" : fmt::format("{}", fmt::join(users, ", ")),
                    vm.at("reserved").get<bool>() ? vm.value("problem", "") : "not all of its memory is reserved"});
  }
  return rows;
}

std::string status_text(const Json& status) {
  Rows gpus = {{"host", "GPU", "name", "memory", "use", "holder"}};
  for (const Json& gpu : status.at("gpus"))
    gpus.push_back(
        {gpu.at("host"), gpu.at("uuid"), gpu.at("name"), memory_text(gpu), work_text(gpu), holder_text(status, gpu)});
  std::string text = gpus.size() == 1 ? "no GPUs: start `xoe pool agent` on each host\n" : table(gpus);
  for (const Json& host : status.at("hosts"))
    if (const std::string without = host.at("without"); !without.empty())
      text += fmt::format("{} has no GPUs: {}\n", host.at("name").get<std::string>(), without);
  for (const Json& host : status.at("hosts"))
    if (const std::string problem = host.value("problem", ""); !problem.empty())
      text += fmt::format("{}: {}\n", host.at("name").get<std::string>(), problem);
  if (!status.at("vms").empty()) text += "\n" + table(vm_rows(status.at("vms")));
  text += enforcement_text(status.at("leases"));
  if (!status.at("queue").empty()) text += "\nwaiting:\n";
  for (const Json& lease : status.at("queue")) text += waiting_text(lease);
  if (!status.at("drift").empty()) text += "\nto look at:\n";
  for (const Json& drift : status.at("drift"))
    text += fmt::format("  {} on {}: {}\n", drift.at("gpu").get<std::string>(), drift.at("host").get<std::string>(),
                        drift.at("what").get<std::string>());
  return text;
}

std::string events_text(const Json& events) {
  Rows rows = {{"number", "time", "who", "what", "lease", "about", "why"}};
  for (const Json& event : events.at("events"))
    rows.push_back({std::to_string(event.at("number").get<std::int64_t>()), local_time(event.at("at")),
                    event.at("actor"), event.at("kind"),
                    event.contains("lease") ? std::to_string(event.at("lease").get<std::int64_t>()) : "",
                    event.at("subject"), event.at("why")});
  return table(rows);
}

// GPU-hours by team and user.
std::string usage_text(const Json& usage) {
  struct Sum {
    double held = 0, busy = 0, idle = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const Json& row : usage.at("usage")) {
    Sum& sum = sums[{row.at("team"), row.at("user")}];
    sum.held += row.at("held").get<double>();
    sum.busy += row.at("busy").get<double>();
    sum.idle += row.at("idle").get<double>();
  }
  Rows rows = {{"team", "user", "GPU-hours held", "busy", "idle"}};
  for (const auto& [who, sum] : sums)
    rows.push_back({who.first.empty() ? "-" : who.first, who.second, fmt::format("{:.2f}", sum.held),
                    fmt::format("{:.2f}", sum.busy), fmt::format("{:.2f}", sum.idle)});
  return table(rows);
}

// A field of a CSV file; names may hold anything.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string usage_csv(const Json& usage) {
  std::string text = "hour,team,user,held_gpu_hours,busy_gpu_hours,idle_gpu_hours\n";
  for (const Json& row : usage.at("usage"))
    text += fmt::format("{},{},{},{:.4f},{:.4f},{:.4f}\n", local_time(row.at("hour")),
                        csv_field(row.at("team").get<std::string>()), csv_field(row.at("user").get<std::string>()),
                        row.at("held").get<double>(), row.at("busy").get<double>(), row.at("idle").get<double>());
  return text;
}

int show(const StatusOptions& options, const std::string& path, std::string (*text)(const Json&)) {
  auto client = connect(options.connection);
  if (!client) return fail(client.error());
  const auto reply = client->get(path);
  if (!reply) return fail(reply.error());
  if (!reply->ok()) return fail(*reply);
  return print(options.connection.json ? xoe::pool::to_text(reply->body) + "\n" : text(reply->body));
}

}  // namespace

void add_status_verbs(CLI::App& app, int& code) {
  const auto options = std::make_shared<StatusOptions>();
  CLI::App* const status = app.add_subcommand("status", "who has what, who waits and why");
  add_connection_options(*status, options->connection);
  status->callback([options, &code] { code = show(*options, "/v1/status", status_text); });

  const auto of_events = std::make_shared<StatusOptions>();
  CLI::App* const events = app.add_subcommand("events", "the audit log (leads, admins)");
  add_connection_options(*events, of_events->connection);
  events->add_option("--after", of_events->after, "the next 1000 lines after this number; else the newest 1000")
      ->type_name("NUMBER");
  events->callback([of_events, &code] {
    const std::string which = of_events->after ? fmt::format("after={}", *of_events->after) : "last=1000";
    code = show(*of_events, "/v1/events?" + which, events_text);
  });

  const auto of_usage = std::make_shared<StatusOptions>();
  CLI::App* const usage = app.add_subcommand("usage", "GPU-hours held, busy and idle, by team and user");
  add_connection_options(*usage, of_usage->connection);
  add_number(*usage, "--days", of_usage->days, 1, 366, "of the last so many days");
  usage->add_flag("--csv", of_usage->csv, "by hour, as a CSV file");
  usage->callback([of_usage, &code] {
    code = show(*of_usage, fmt::format("/v1/usage?days={}", of_usage->days), of_usage->csv ? usage_csv : usage_text);
  });
}

}  // namespace xoe::tools::pool

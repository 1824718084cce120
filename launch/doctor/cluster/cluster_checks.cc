#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/base/text.h"
#include "launch/doctor/checks/installation.h"
#include "launch/doctor/cluster/cluster.h"
#include "launch/doctor/report/report.h"

namespace xoe::doctor {
namespace {

constexpr double kMuchClock = 0.1;  // seconds

std::string rate_text(double bytes_per_second) {
  const double bits = bytes_per_second * 8;
  return bits >= 1e9 ? fmt::format("{:.3g} Gbit/s", bits * 1e-9) : fmt::format("{:.3g} Mbit/s", bits * 1e-6);
}

Finding check_reach(const HostResult& host) {
  if (host.trouble) return *host.trouble;
  Finding finding{.id = "hosts.reach." + host.name,
                  .what = fmt::format("{}: reached without a password, Xoe {}", host.name, host.version),
                  .why = "xoe run starts programs on other hosts over ssh, without a password"};
  finding.details = {{"host", host.name}, {"reached", true}, {"seconds", host.seconds}, {"xoe", host.version}};
  if (host.report) return finding;
  finding.report(Severity::kProblem,
                 fmt::format("{}: reached, but its report is missing: {}", host.name, host.report_error),
                 fmt::format("try by hand: ssh {} xoe doctor", host.name));
  return finding;
}

Finding check_clock(const HostResult& host) {
  Finding finding{.id = "hosts.clock." + host.name,
                  .what = fmt::format("{}: clock {:+.3f} ms (within {:.3f} ms)", host.name, host.clock_offset * 1e3,
                                      host.clock_bound * 1e3),
                  .why = "logs, timelines and files of several hosts are compared by their times"};
  finding.details = {{"host", host.name}, {"offset_s", host.clock_offset}, {"bound_s", host.clock_bound}};
  if (std::abs(host.clock_offset) - host.clock_bound <= kMuchClock) return finding;
  finding.report(Severity::kWarning,
                 fmt::format("{}: its clock is {} {}", host.name, human_seconds(std::abs(host.clock_offset)),
                             host.clock_offset > 0 ? "ahead" : "behind"),
                 fmt::format("on {} and here: apt install chrony (timedatectl tells the state)", host.name));
  return finding;
}

// Compares one version among all hosts that have a report, and this one.
Finding check_same(const std::vector<HostResult>& hosts, const Report& here, const std::string& key,
                   std::string_view what, Severity when_different, std::string_view why, std::string_view fix) {
  std::map<std::string, std::string> names;  // by value
  const auto add = [&](const std::map<std::string, std::string>& versions, const std::string& name) {
    const auto at = versions.find(key);
    std::string& list = names[at == versions.end() ? "none" : at->second];
    list += (list.empty() ? "" : ", ") + name;
  };
  add(here.versions, "here");
  for (const HostResult& host : hosts)
    if (host.report) add(host.report->versions, host.name);
  Finding finding{.id = "hosts.version." + key,
                  .what = fmt::format("all have {} {}", what, names.begin()->first),
                  .why = std::string(why),
                  .details = {{"versions", names}}};
  if (names.size() == 1) return finding;
  finding.report(when_different, fmt::format("{} differs:", what));
  for (const auto& [version, list] : names) finding.what += fmt::format(" {} on {};", printable(version, 60), list);
  finding.what.pop_back();
  finding.fix = fix;
  return finding;
}

void check_versions(const std::vector<HostResult>& hosts, const Report& here, Findings& findings) {
  findings.push_back(check_same(hosts, here, "xoe", "Xoe", Severity::kProblem,
                                "hosts with different versions do not understand each other",
                                "install the same Xoe on all hosts"));
  const auto anywhere = [&](const std::string& key) {
    return here.versions.contains(key) || std::any_of(hosts.begin(), hosts.end(), [&key](const HostResult& host) {
             return host.report && host.report->versions.contains(key);
           });
  };
  if (anywhere("nccl"))
    findings.push_back(check_same(hosts, here, "nccl", "NCCL", Severity::kWarning,
                                  "NCCL joins hosts of one version only",
                                  "install the same NCCL on all hosts that train"));
  if (anywhere("driver"))
    findings.push_back(check_same(hosts, here, "driver", "NVIDIA's driver", Severity::kNote,
                                  "different drivers mostly work together, but hide causes",
                                  "the same driver on all hosts that train"));
  findings.push_back(check_same(hosts, here, "kernel", "Linux", Severity::kNote,
                                "different kernels work together, but hide causes", ""));
}

bool reaches(const Pair& pair) {
  return std::any_of(pair.paths.begin(), pair.paths.end(), [](const NetworkPath& path) { return path.error.empty(); });
}

Finding check_pair(const Pair& pair) {
  Finding finding{.id = fmt::format("hosts.pair.{}.{}", pair.from, pair.to),
                  .severity = Severity::kProblem,
                  .what = fmt::format("{} does not reach {}", pair.from, pair.to),
                  .why = "ranks of all hosts connect to each other over TCP, on ports that the kernel chooses",
                  .details = json_of(pair)};
  if (!pair.error.empty()) {
    finding.what = fmt::format("nothing could be measured from {} to {}: {}", pair.from, pair.to, pair.error);
    finding.fix = "repeat with these two hosts alone";
    return finding;
  }
  for (const NetworkPath& path : pair.paths)
    finding.what += fmt::format("{} {} ({}): {}", &path == &pair.paths.front() ? ":" : ",", path.address,
                                path.interface, printable(path.error, 100));
  finding.fix = fmt::format(
      "let {} connect to all TCP ports of {} (firewall, security group), or name the network that "
      "joins them: --network-interface",
      pair.from, pair.to);
  return finding;
}

Finding check_pairs(const std::vector<Pair>& pairs) {
  std::vector<std::vector<std::string>> rows = {{"from", "to", "address", "interface", "latency", "bandwidth"}};
  double slowest = 0;
  double fastest = 0;
  Json list = Json::array();
  for (const Pair& pair : pairs) {
    list.push_back(json_of(pair));
    double best = 0;
    for (const NetworkPath& path : pair.paths) {
      rows.push_back({pair.from, pair.to, path.address, path.interface,
                      path.error.empty() ? human_seconds(path.latency) : printable(path.error, 40),
                      path.rate ? rate_text(*path.rate) : "-"});
      best = std::max(best, path.rate.value_or(0));
    }
    if (best > 0) slowest = slowest > 0 ? std::min(slowest, best) : best;
    fastest = std::max(fastest, best);
  }
  Finding finding{
      .id = "hosts.pairs",
      .what = counted(std::ssize(pairs), "pair") + " measured",
      .why = "the slowest pair sets the pace of all",
      .details = {{"pairs", std::move(list)}, {"slowest_bytes_per_s", slowest}, {"fastest_bytes_per_s", fastest}}};
  if (slowest > 0) finding.what += fmt::format(": {} to {}", rate_text(slowest), rate_text(fastest));
  if (slowest > 0 && slowest < fastest / 3) {
    finding.advise(
        Severity::kWarning,
        "see the slow pairs below: a link that fell back to a lower speed (ethtool), another switch, other traffic?");
  }
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}", row[i], widths[i] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    finding.table += line + "\n";
  }
  return finding;
}

// The backends that load on every host that answered.
std::vector<std::string> common_engines(const std::vector<HostResult>& hosts) {
  std::vector<std::string> common{"gloo", "mpi"};
  for (const HostResult& host : hosts)
    if (host.report)
      std::erase_if(common, [&](const auto& engine) {
        return std::ranges::find(host.report->engines, engine) == host.report->engines.end();
      });
  return common;
}

Finding check_engine(const std::vector<HostResult>& hosts) {
  const auto common = common_engines(hosts);
  Finding finding{.id = "hosts.backend",
                  .what = "backend between these hosts: " + say_engines(common),
                  .why = "it loads on all of them; each byte crosses the network once per host",
                  .details = {{"engine", engine_between_hosts(common, false)},
                              {"engine_by_mpi", engine_between_hosts(common, true)}}};
  if (common.empty()) {
    finding.report(Severity::kProblem, "no engine between hosts loads on all of them",
                   "install one on all hosts: Gloo (libgloo) or an MPI; xoe doctor on each tells what is missing");
  } else if (engine_between_hosts(common, false).empty()) {
    finding.advise(Severity::kNote, "start jobs with mpirun or srun, or install Gloo (libgloo) on all hosts");
  }
  return finding;
}

}  // namespace

Json json_of(const Pair& pair) {
  Json paths = Json::array();
  for (const NetworkPath& path : pair.paths)
    paths.push_back({{"interface", path.interface},
                     {"address", path.address},
                     {"reached", path.error.empty()},
                     {"error", path.error},
                     {"latency_s", path.latency},
                     {"bytes_per_s", json_or_null(path.rate)}});
  return {{"from", pair.from}, {"to", pair.to}, {"error", pair.error}, {"ways", std::move(paths)}};
}

Json json_of(const HostResult& host) {
  return {{"name", host.name},
          {"reached", !host.trouble},
          {"xoe", host.version},
          {"clock_offset_s", host.clock_known ? Json(host.clock_offset) : Json()},
          {"clock_bound_s", host.clock_known ? Json(host.clock_bound) : Json()},
          {"report", host.report ? json_of(*host.report) : Json()}};
}

Findings check_cluster(const std::vector<HostResult>& hosts, const std::vector<Pair>& pairs, const Report& here) {
  Findings findings;
  for (const HostResult& host : hosts) {
    findings.push_back(check_reach(host));
    if (host.clock_known) findings.push_back(check_clock(host));
  }
  const auto reports = std::ranges::count_if(hosts, [](const auto& host) { return host.report.has_value(); });
  if (reports > 0) check_versions(hosts, here, findings);
  if (reports > 1) findings.push_back(check_engine(hosts));
  if (!pairs.empty()) findings.push_back(check_pairs(pairs));
  for (const Pair& pair : pairs)
    if (!pair.error.empty() || !reaches(pair)) findings.push_back(check_pair(pair));
  return findings;
}

}  // namespace xoe::doctor

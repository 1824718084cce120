#include "doctor_hosts.h"

#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "remote/host_list.h"

namespace xoe::tools {

using doctor::ClusterResult;
using doctor::HostResult;
using doctor::Json;
using doctor::Severity;

Result<std::vector<std::string>> named_hosts(const DoctorHostsOptions& options) {
  std::vector<remote::Host> hosts;
  if (!options.hosts.empty()) {
    XOE_ASSIGN(hosts, remote::parse_hosts(options.hosts));
  } else if (!options.hostfile.empty()) {
    XOE_ASSIGN(hosts, remote::read_hostfile(options.hostfile));
  }
  std::vector<std::string> names;
  for (remote::Host& host : hosts) names.push_back(std::move(host.name));
  return names;
}

doctor::ClusterOptions cluster_options(const DoctorHostsOptions& options, std::vector<std::string> hosts,
                                       const std::string& program) {
  doctor::ClusterOptions cluster{.hosts = std::move(hosts), .connect = options.connect};
  if (cluster.connect.xoe_path.empty()) {
    cluster.connect.xoe_path = std::filesystem::path(program).parent_path() / "xoe";
    cluster.connect.search_path = true;
  }
  if (::isatty(STDERR_FILENO) != 0)
    cluster.progress = [](const std::string& step) { fmt::print(stderr, "xoe doctor: {} ...\n", step); };
  return cluster;
}

std::string cluster_text(const ClusterResult& result, const doctor::TextOptions& options) {
  std::string out = findings_text(result.findings, options);
  for (const HostResult& host : result.hosts) {
    if (!host.report) continue;
    doctor::Findings findings;
    for (const doctor::Finding& finding : host.report->findings)
      if (options.verbose || finding.severity == Severity::kWarning || finding.severity == Severity::kProblem)
        findings.push_back(finding);
    const std::string name = doctor::printable(host.name, 255);
    const std::string count = doctor::count_text(count_severities(host.report->findings));
    out += fmt::format("\n{}: {}\n", options.colours ? fmt::format("\033[1m{}\033[0m", name) : name, count);
    if (!findings.empty()) out += "\n" + findings_text(findings, options);
  }
  return out;
}

Json cluster_json(const doctor::Report& here, const ClusterResult& result) {
  Json json = json_of(here);
  for (const doctor::Finding& finding : result.findings) json["findings"].push_back(json_of(finding));
  json["hosts"] = Json::array();
  for (const HostResult& host : result.hosts) json["hosts"].push_back(json_of(host));
  json["pairs"] = Json::array();
  for (const doctor::Pair& pair : result.pairs) json["pairs"].push_back(json_of(pair));
  json["summary"] = json_of(count_all(here, result));
  return json;
}

doctor::Count count_all(const doctor::Report& here, const ClusterResult& result) {
  doctor::Findings all = here.findings;
  append(all, result.findings);
  for (const HostResult& host : result.hosts)
    if (host.report) append(all, host.report->findings);
  return count_severities(all);
}

}  // namespace xoe::tools

#include "doctor_hosts.h"

#include <unistd.h>

#include "base/error.h"
#include "doctor/host_list.h"
#include "doctor/tree.h"

namespace xoe::tools {

using doctor::ClusterResult;
using doctor::HostResult;
using doctor::Json;
using doctor::State;

Result<std::vector<std::string>> named_hosts(const DoctorHostsOptions& options) {
  if (!options.hosts.empty()) return doctor::parse_hosts(options.hosts);
  if (options.hostfile.empty()) return std::vector<std::string>();
  const auto text =
      doctor::Tree().text(options.hostfile.starts_with('/') ? options.hostfile : "/proc/self/cwd/" + options.hostfile);
  if (!text) return failure(Code::kInvalidArgument, "cannot read the hostfile {}", options.hostfile);
  return doctor::parse_hostfile(*text, options.hostfile);
}

doctor::ClusterOptions cluster_options(const DoctorHostsOptions& options, std::vector<std::string> hosts) {
  doctor::ClusterOptions cluster{.hosts = std::move(hosts), .ssh = options.ssh};
  if (const auto words = doctor::words_of(options.ssh_command); !words.empty()) cluster.ssh.command = words;
  if (::isatty(STDERR_FILENO) != 0)
    cluster.progress = [](const std::string& what) { fmt::print(stderr, "xoe doctor: {} ...\n", what); };
  return cluster;
}

std::string cluster_text(const ClusterResult& result, const doctor::TextOptions& options) {
  std::string out = findings_text(result.findings, options);
  for (const HostResult& host : result.hosts) {
    if (!host.report) continue;
    doctor::Findings findings;
    for (const doctor::Finding& finding : host.report->findings)
      if (options.verbose || finding.state == State::kWarning || finding.state == State::kProblem)
        findings.push_back(finding);
    const std::string name = doctor::shown(host.name, 255);
    const std::string count = doctor::count_text(count_states(host.report->findings));
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
  return count_states(all);
}

}  // namespace xoe::tools

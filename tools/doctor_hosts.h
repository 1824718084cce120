// `xoe doctor --hosts`: other hosts, and the network between them.
#pragma once

#include <string>
#include <vector>

#include "doctor/cluster.h"
#include "doctor/report.h"

namespace xoe::tools {

struct DoctorHostsOptions {
  std::string hosts = {};  // "a,b:4"
  std::string hostfile = {};
  std::string ssh_command = {};  // with its options, parted at blanks; empty: ssh
  doctor::SshOptions ssh = {};
};

// In the order named, each once. Empty where none is named.
Result<std::vector<std::string>> named_hosts(const DoctorHostsOptions& options);
doctor::ClusterOptions cluster_options(const DoctorHostsOptions& options, std::vector<std::string> hosts);

// What the network and each host have to say; of hosts only what is not fine, unless verbose.
std::string cluster_text(const doctor::ClusterResult& result, const doctor::TextOptions& options);
// The report of this machine with those of the others in it.
doctor::Json cluster_json(const doctor::Report& here, const doctor::ClusterResult& result);
// Of all findings, here and there.
doctor::Count count_all(const doctor::Report& here, const doctor::ClusterResult& result);

}  // namespace xoe::tools

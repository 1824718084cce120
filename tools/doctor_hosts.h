// `xoe doctor --hosts`: other hosts, and the network between them.
#pragma once

#include <string>
#include <vector>

#include "doctor/cluster/cluster.h"
#include "doctor/report/report.h"

namespace xoe::tools {

struct DoctorHostsOptions {
  std::string hosts = {};  // "a,b:4"
  std::string hostfile = {};
  remote::ConnectOptions connect = {.start_timeout = std::chrono::seconds(5)};
};

// In the order of the list, each once; empty without a list.
Result<std::vector<std::string>> named_hosts(const DoctorHostsOptions& options);
// `program`: the whole path of this one; without --xoe-path, the other hosts have xoe in the same folder or in their
// PATH.
doctor::ClusterOptions cluster_options(const DoctorHostsOptions& options, std::vector<std::string> hosts,
                                       const std::string& program);

// The findings about the network and about each host; of the hosts only warnings and problems, unless verbose.
std::string cluster_text(const doctor::ClusterResult& result, const doctor::TextOptions& options);
// The report of this machine, with the other hosts' reports in it.
doctor::Json cluster_json(const doctor::Report& here, const doctor::ClusterResult& result);
// Counts the findings of all hosts.
doctor::Count count_all(const doctor::Report& here, const doctor::ClusterResult& result);

}  // namespace xoe::tools

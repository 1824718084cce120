// Examines other hosts over ssh, and the network between them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/doctor/report/report.h"
#include "launch/remote/launch_method.h"

namespace xoe::doctor {

struct ClusterOptions {
  std::vector<std::string> hosts = {};
  remote::ConnectOptions connect = {};                    // start_timeout: of a connection
  std::function<void(const std::string&)> progress = {};  // called before each step with its name; may be empty
};

struct HostResult {
  std::string name = {};                // as the user wrote it
  std::optional<Finding> trouble = {};  // why it was not reached; else:
  double seconds = 0;                   // until it answered
  std::string version = {};             // of Xoe
  double clock_offset = 0;              // seconds; positive: its clock is ahead of ours
  double clock_bound = 0;               // of the error of clock_offset, in seconds
  bool clock_known = false;
  std::optional<Report> report = {};
  std::string report_error = {};
};

// From one host to an address of another.
struct NetworkPath {
  std::string interface = {};  // of the host that is reached
  std::string address = {};
  std::string error = {};           // empty: reached
  double latency = 0;               // seconds, one way
  std::optional<double> rate = {};  // bytes per second, where it was measured
};

struct Pair {
  std::string from = {};
  std::string to = {};
  std::string error = {};  // why it could not be measured at all
  std::vector<NetworkPath> paths = {};
};

struct ClusterResult {
  std::vector<HostResult> hosts;
  std::vector<Pair> pairs;
  Findings findings;  // of the group "hosts"
};

Result<ClusterResult> examine_hosts(const ClusterOptions& options, const Report& here);

// The pairs that are measured: all, in both directions, up to eight hosts; else each host with the next.
std::vector<std::pair<std::size_t, std::size_t>> pairs_of(std::size_t hosts);
// The findings that follow from the hosts' reports and the measurements.
Findings check_cluster(const std::vector<HostResult>& hosts, const std::vector<Pair>& pairs, const Report& here);
Json json_of(const HostResult& host);
Json json_of(const Pair& pair);

}  // namespace xoe::doctor

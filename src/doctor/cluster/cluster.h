// Examines other hosts over ssh, and the network between them.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "doctor/examine.h"
#include "doctor/ssh.h"

namespace xoe::doctor {

struct ClusterOptions {
  std::vector<std::string> hosts = {};
  SshOptions ssh = {};
  std::chrono::seconds report_patience{60};
  std::function<void(const std::string&)> progress = {};  // is told what comes next; may be empty
};

struct HostResult {
  std::string name = {};                // as the user wrote it
  std::optional<Finding> trouble = {};  // why it was not reached; else:
  double seconds = 0;                   // until it answered
  std::string version = {};             // of Xoe
  double clock_offset = 0;              // seconds by which its clock is ahead of ours
  double clock_bound = 0;               // the true offset lies within so many seconds
  bool clock_known = false;
  std::optional<Report> report = {};
  std::string report_error = {};
};

struct Way {
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
  std::vector<Way> ways = {};
};

struct ClusterResult {
  std::vector<HostResult> hosts;
  std::vector<Pair> pairs;
  Findings findings;  // of the group "hosts"
};

Result<ClusterResult> examine_hosts(const ClusterOptions& options, const Report& here);

// Which hosts are measured with which: all, both ways, up to eight hosts; else each with the next.
std::vector<std::pair<std::size_t, std::size_t>> pairs_of(std::size_t hosts);
// What follows from what the hosts said.
Findings check_cluster(const std::vector<HostResult>& hosts, const std::vector<Pair>& pairs, const Report& here);
Json json_of(const HostResult& host);
Json json_of(const Pair& pair);

}  // namespace xoe::doctor

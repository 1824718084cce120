// Hands leases over to a Slurm cluster: each becomes an allocation with GRES, by Slurm's own commands.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pool/model/state.h"
#include "xoe/status.h"

namespace xoe::pool::slurm {

struct Node {
  std::string name = {};
  std::string state = {};
  std::string type = {};  // of its GPUs: "t4"; empty: not told
  int gpus = 0;
  int used = 0;
  int left_out = 0;  // GPUs beyond the number that a node may have

  bool is_up() const;
};
// Of `scontrol --details --oneliner show node`. `data_loss`: it tells of no node.
Result<std::vector<Node>> nodes_of(std::string_view text);

struct Job {
  std::int64_t id = 0;
  std::string user = {};
  std::string node = {};
  int gpus = 0;
  std::int64_t lease = 0;  // 0: none of the pool's
};
// Of `squeue --noheader --format=%i|%u|%N|%b`, without their leases; jobs without a GPU are left out. `data_loss`: a
// line is not of a job, so that jobs may be missing.
Result<std::vector<Job>> jobs_of(std::string_view text);
// Of lines with a job's number and a text: the leases of those whose text is `prefix` and a number. `data_loss`: as
// above.
Result<std::map<std::int64_t, std::int64_t>> marks_of(std::string_view text, std::string_view prefix);
// Of what salloc prints; nullopt: it does not tell.
std::optional<std::int64_t> granted_job(std::string_view text);

// Runs a program and returns what it prints, where that is nothing, on stderr. `unavailable`: it is not there, failed,
// or took too long; the message has its last line of stderr.
using Run = std::function<Result<std::string>(const std::vector<std::string>& words)>;
Result<std::string> run_program(const std::vector<std::string>& words);

struct Rules {
  std::string partition = {};        // empty: the cluster's default
  std::string prefix = "xoe-pool-";  // of names and comments of the jobs; the lease's number follows
  bool as_users = false;             // jobs belong to the leases' users; the agent is root
};

class Agent {
 public:
  Agent(Run run, Rules rules) : run_(std::move(run)), rules_(std::move(rules)) {}

  // A report for each node. GPUs of a node are interchangeable: "slurm:NODE:0" is any of them.
  Result<std::vector<HostReport>> observe();
  // Allocates for leases that have no job, and cancels jobs whose leases have ended. What fails is in the next report,
  // as the problem of its node; returns lines for a log. `unknown`: nodes of which the pool told nothing, because it
  // refused their reports: their jobs and leases stay as they are.
  std::vector<std::string> apply(const std::vector<ClusterLease>& leases, const std::set<std::string>& unknown = {});

 private:
  HostReport report_of(const Node& node) const;
  Result<std::map<std::int64_t, std::int64_t>> marks();
  Status apply_to(const Job& job, std::vector<std::string>& log);
  Status allocate(const ClusterLease& lease);
  Status mark(std::string_view told, std::int64_t lease);
  Status set_end(const Job& job, const ClusterLease& lease);

  Run run_;
  Rules rules_;
  std::vector<Node> nodes_;
  std::vector<Job> jobs_;
  std::vector<ClusterLease> leases_;
  std::map<std::string, std::string> problems_;  // by node
  std::map<std::int64_t, Time> ends_;            // that jobs were told, by lease
};

}  // namespace xoe::pool::slurm

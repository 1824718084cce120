#include "pool/slurm/agent.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace xoe::pool::slurm {
namespace {

constexpr int kMostGpus = 64;  // of one node
constexpr int kMostCount = 1'000'000;
constexpr const char* kStates = "--states=RUNNING,CONFIGURING,COMPLETING,SUSPENDED,PENDING";

// The value of "KEY=" in a line of blank-separated fields; empty: there is none.
std::string_view field(std::string_view line, std::string_view key) {
  for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    if (at > 0 && line[at - 1] != ' ') continue;
    const std::size_t begin = at + key.size();
    return line.substr(begin, line.find(' ', begin) - begin);
  }
  return {};
}

struct Gres {
  std::string type = {};
  int count = 0;
};

// "gpu:t4:2(IDX:0,1),shard:8" has 2 of type t4; "gres:gpu:1" 1.
Gres gpus_in(std::string_view text) {
  std::string plain;
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : 0;
    if (depth == 0) plain += c;
    depth -= c == ')' ? 1 : 0;
  }
  Gres sum;
  for (const std::string& each : split_text(plain, ',')) {
    auto parts = split_text(each, ':');
    if (!parts.empty() && (parts[0] == "gres" || parts[0] == "gres/gpu")) parts.erase(parts.begin());
    if (parts.empty() || parts[0] != "gpu") continue;
    const auto count = parse_integer(parts.back());
    if (parts.size() > 2 || (parts.size() == 2 && !count)) sum.type = parts[1];
    const auto more = std::clamp<std::int64_t>(parts.size() > 1 && count ? *count : 1, 0, kMostCount);
    sum.count = std::min(sum.count + static_cast<int>(more), kMostCount);
  }
  return sum;
}

// What a program tells of is not all that there is: a line that is not understood may be a job that uses a GPU.
Error unreadable(std::string_view program, const std::string& line) {
  constexpr std::size_t kQuoted = 200;
  return {Code::kDataLoss,
          fmt::format("{} prints what cannot be read: {}", program, printable_utf8(line.substr(0, kQuoted)))};
}

// The lines about jobs. A program's words to its user begin with its name.
Result<std::vector<std::string>> job_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (std::string& line : split_text(text, '\n')) {
    if (trimmed(line).empty() || line.starts_with("squeue: ")) continue;
    if (trimmed(line).find_first_of("0123456789") != 0) return tl::unexpected(unreadable("squeue", line));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string gpu_id(const std::string& node, int index) { return fmt::format("{}{}:{}", kSlurmGpuPrefix, node, index); }

}  // namespace

bool Node::is_up() const {
  return std::ranges::none_of(std::vector<std::string_view>{"DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "UNKNOWN", "*"},
                              [&](std::string_view word) { return state.find(word) != std::string::npos; });
}

Result<std::vector<Node>> nodes_of(std::string_view text) {
  std::vector<Node> nodes;
  for (const std::string& line : split_text(text, '\n')) {
    Node node{.name = std::string(field(line, "NodeName=")), .state = std::string(field(line, "State="))};
    const Gres all = gpus_in(field(line, "Gres="));
    node.type = all.type;
    node.gpus = std::min(all.count, kMostGpus);
    node.left_out = all.count - node.gpus;
    node.used = std::min(gpus_in(field(line, "GresUsed=")).count, node.gpus);
    if (!node.name.empty()) nodes.push_back(std::move(node));
  }
  if (nodes.empty()) return tl::unexpected(unreadable("scontrol", std::string(trimmed(text))));
  return nodes;
}

Result<std::vector<Job>> jobs_of(std::string_view text) {
  std::vector<Job> jobs;
  XOE_ASSIGN(const auto lines, job_lines(text));
  for (const std::string& line : lines) {
    const auto parts = split_text(line, '|');
    if (parts.size() != 4) return tl::unexpected(unreadable("squeue", line));
    Job job{
        .id = parse_integer(parts[0]).value_or(0), .user = parts[1], .node = parts[2], .gpus = gpus_in(parts[3]).count};
    if (job.id > 0 && job.gpus > 0) jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<std::map<std::int64_t, std::int64_t>> marks_of(std::string_view text, std::string_view prefix) {
  std::map<std::int64_t, std::int64_t> marks;
  XOE_ASSIGN(const auto lines, job_lines(text));
  for (const std::string& line : lines) {
    const auto words = words_of(line);
    if (words.size() != 2 || !words[1].starts_with(prefix)) continue;
    const auto job = parse_integer(words[0]);
    const auto lease = parse_integer(words[1].substr(prefix.size()));
    if (job && lease) marks[*job] = *lease;
  }
  return marks;
}

std::optional<std::int64_t> granted_job(std::string_view text) {
  static constexpr std::string_view kGranted = "Granted job allocation ";
  const auto at = text.find(kGranted);
  if (at == std::string_view::npos) return std::nullopt;
  const auto number = text.substr(at + kGranted.size());
  return parse_integer(number.substr(0, number.find_first_not_of("0123456789")));
}

// The GPUs of a lease's job are those of the lease, whichever Slurm chose; other jobs have the rest.
HostReport Agent::report_of(const Node& node) const {
  HostReport report{.host = node.name};
  if (const auto problem = problems_.find(node.name); problem != problems_.end()) report.problem = problem->second;
  if (node.left_out > 0)
    report.add_problem(
        fmt::format("its {} GPUs are more than the {} that are reported", node.gpus + node.left_out, kMostGpus));
  if (!node.is_up() || node.gpus == 0) {
    report.without = node.gpus == 0 ? "Slurm knows no GPU of it" : "Slurm has it as " + node.state;
    return report;
  }
  for (int i = 0; i < node.gpus; ++i) {
    report.gpus.push_back(
        {.uuid = gpu_id(node.name, i), .host = node.name, .name = node.type.empty() ? "gpu" : node.type});
    report.activity.emplace_back();
  }
  int unnamed = node.used;
  const auto mark = [&](std::size_t gpu, const Job& job) {
    if (!report.activity[gpu].processes.empty()) return;
    report.activity[gpu].processes.push_back({.pid = job.id, .user = job.user});
    --unnamed;
  };
  std::vector<Job> others;
  for (const Job& job : jobs_) {
    if (job.node != node.name) continue;
    const auto lease = std::ranges::find(leases_, job.lease, &ClusterLease::id);
    if (job.lease == 0 || lease == leases_.end()) {
      others.push_back(job);
      continue;
    }
    for (std::size_t i = 0; i < report.gpus.size(); ++i)
      if (std::ranges::find(lease->gpus, report.gpus[i].uuid) != lease->gpus.end())
        mark(i, {.id = job.id, .user = lease->user});
  }
  for (const Job& job : others) {
    int left = job.gpus;
    for (std::size_t i = 0; i < report.gpus.size() && left > 0; ++i)
      if (report.activity[i].processes.empty()) {
        mark(i, job);
        --left;
      }
  }
  for (std::size_t i = report.gpus.size(); i-- > 0 && unnamed > 0;) mark(i, {.user = "Slurm"});
  return report;
}

Result<std::vector<HostReport>> Agent::observe() {
  XOE_ASSIGN(const std::string nodes, run_({"scontrol", "--details", "--oneliner", "show", "node"}));
  XOE_ASSIGN(const std::string jobs, run_({"squeue", "--noheader", kStates, "--format=%i|%u|%N|%b"}));
  XOE_ASSIGN(const auto marks, marks());
  XOE_ASSIGN(auto nodes_now, nodes_of(nodes));
  XOE_ASSIGN(auto jobs_now, jobs_of(jobs));
  nodes_ = std::move(nodes_now);
  jobs_ = std::move(jobs_now);
  for (Job& job : jobs_)
    if (const auto mark = marks.find(job.id); mark != marks.end()) job.lease = mark->second;
  std::vector<HostReport> reports;
  for (const Node& node : nodes_) reports.push_back(report_of(node));
  return reports;
}

// Which job is of which lease. Names of jobs tell nothing: every user may choose them. Only operators set the comment
// that root leaves, and where the agent is a user of its own, the names of that user's jobs are the agent's.
Result<std::map<std::int64_t, std::int64_t>> Agent::marks() {
  std::vector<std::string> words = {"squeue", "--noheader", kStates};
  if (rules_.as_users) {
    words.emplace_back("--Format=JobID:24,admin_comment:64");
  } else {
    words.emplace_back("--me");
    words.emplace_back("--Format=JobID:24,Name:64");
  }
  XOE_ASSIGN(const std::string text, run_(words));
  return marks_of(text, rules_.prefix);
}

std::vector<std::string> Agent::apply(const std::vector<ClusterLease>& leases, const std::set<std::string>& unknown) {
  std::vector<std::string> log;
  std::erase_if(leases_, [&](const ClusterLease& lease) { return !unknown.contains(lease.host); });
  leases_.insert(leases_.end(), leases.begin(), leases.end());
  problems_.clear();
  for (const Job& job : jobs_) {
    // One that waits has no node yet.
    const bool is_unknown = job.node.empty() ? !unknown.empty() : unknown.contains(job.node);
    if (job.lease == 0 || is_unknown) continue;
    if (const Status done = apply_to(job, log); !done) problems_[job.node] = done.error().message();
  }
  std::erase_if(ends_, [&](const auto& item) {
    return std::ranges::find(leases_, item.first, &ClusterLease::id) == leases_.end();
  });
  for (const ClusterLease& lease : leases) {
    if (std::ranges::find(jobs_, lease.id, &Job::lease) != jobs_.end()) continue;
    if (const Status done = allocate(lease)) {
      log.push_back(fmt::format("lease {} has {} of {}", lease.id,
                                counted(static_cast<std::int64_t>(lease.gpus.size()), "GPU"), lease.host));
    } else {
      problems_[lease.host] = done.error().message();
      log.push_back(fmt::format("lease {}: {}", lease.id, done.error().message()));
    }
  }
  return log;
}

// Its end is that of its lease, and one without a lease is cancelled.
Status Agent::apply_to(const Job& job, std::vector<std::string>& log) {
  const auto lease = std::ranges::find(leases_, job.lease, &ClusterLease::id);
  if (lease == leases_.end()) {
    ends_.erase(job.lease);
    XOE_TRY(run_({"scancel", std::to_string(job.id)}));
    log.push_back(fmt::format("job {} of lease {} was cancelled", job.id, job.lease));
    return {};
  }
  if (rules_.as_users && job.user != lease->user)
    return failure(Code::kInvalidArgument, "job {} of lease {} belongs to {}, not to {}", job.id, job.lease, job.user,
                   lease->user);
  return set_end(job, *lease);
}

// An allocation without a process: it lasts until its time is over or it is cancelled.
Status Agent::allocate(const ClusterLease& lease) {
  const auto minutes = std::chrono::ceil<std::chrono::minutes>(lease.left);
  std::vector<std::string> words = {"salloc",
                                    "--no-shell",
                                    "--immediate=10",
                                    fmt::format("--job-name={}{}", rules_.prefix, lease.id),
                                    "--nodes=1",
                                    "--nodelist=" + lease.host,
                                    fmt::format("--gres=gpu:{}", lease.gpus.size()),
                                    fmt::format("--time={}", std::max<std::int64_t>(minutes.count(), 1))};
  if (!rules_.partition.empty()) words.push_back("--partition=" + rules_.partition);
  if (rules_.as_users) words.push_back("--uid=" + lease.user);
  XOE_ASSIGN(const std::string out, run_(words));
  if (rules_.as_users) XOE_TRY(mark(out, lease.id));
  ends_[lease.id] = lease.ends;
  return {};
}

// A job that cannot be marked would never be found again.
Status Agent::mark(std::string_view told, std::int64_t lease) {
  const auto job = granted_job(told);
  if (!job) return failure(Code::kUnavailable, "salloc does not tell the number of the job of lease {}", lease);
  const auto marked = run_(
      {"scontrol", "update", fmt::format("JobId={}", *job), fmt::format("AdminComment={}{}", rules_.prefix, lease)});
  if (marked) return {};
  static_cast<void>(run_({"scancel", std::to_string(*job)}));
  return failure(marked.error());
}

// After the lease was renewed, or when this agent has just started.
Status Agent::set_end(const Job& job, const ClusterLease& lease) {
  if (const auto told = ends_.find(lease.id); told != ends_.end() && told->second == lease.ends) return {};
  const auto minutes = std::chrono::ceil<std::chrono::minutes>(lease.left).count();
  XOE_ASSIGN([[maybe_unused]] const std::string out,
             run_({"scontrol", "update", fmt::format("JobId={}", job.id),
                   fmt::format("EndTime=now+{}minutes", std::max<std::int64_t>(minutes, 1))}));
  ends_[lease.id] = lease.ends;
  return {};
}

}  // namespace xoe::pool::slurm

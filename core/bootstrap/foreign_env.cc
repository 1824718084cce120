#include "core/bootstrap/foreign_env.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/bootstrap/job_identity.h"
#include "core/bootstrap/launch_values.h"

namespace xoe::bootstrap {
namespace {

// Slurm's step ids of shells (batch, interactive, extern) start here.
constexpr std::int64_t kFirstSpecialStep = 0xfffffff0;

LaunchInfo info_of(std::string launcher) {
  return LaunchInfo{.topology = {}, .launcher = std::move(launcher), .job = {}, .store = {}, .secret = {}};
}

// The first name of a list: n1 of "n[1-2,7],x".
std::string first_of_node_list(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size() && text[i] != ','; ++i) {
    if (text[i] != '[') {
      name += text[i];
      continue;
    }
    const auto close = text.find(']', i);
    const std::string_view numbers = text.substr(i + 1, close == std::string_view::npos ? close : close - i - 1);
    name += numbers.substr(0, numbers.find_first_of(",-"));
    if (close == std::string_view::npos) break;
    i = close;
  }
  return name;
}

// LSF's list of hosts begins with the node that only launches; jsrun puts rank 0 on the one after it. Empty: there is
// none, or the list cannot be read.
std::string first_compute_node(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text) return {};
  std::string launcher;
  for (const std::string& line : split_text(*text, '\n')) {
    const std::string host(trimmed(line));
    if (host.empty() || host == launcher) continue;
    if (!launcher.empty()) return host;
    launcher = host;
  }
  return {};
}

Status place_on_slurm_nodes(const Env& env, Topology& at) {
  const auto text = env.text("SLURM_STEP_TASKS_PER_NODE");
  if (!text) {
    at.local_size = at.size;  // one node
    return {};
  }
  const auto expanded = expand_counts(*text);
  if (!expanded)
    return failure(Code::kInvalidArgument, "environment variable SLURM_STEP_TASKS_PER_NODE={}: expected e.g. 2(x3),1",
                   *text);
  const std::vector<int>& tasks = *expanded;
  XOE_ASSIGN(const int node, value_or(env, "SLURM_NODEID", 0));
  if (static_cast<std::size_t>(node) >= tasks.size())
    return failure(Code::kInvalidArgument, "environment variable SLURM_NODEID={} contradicts {}={}: that has {} nodes",
                   node, "SLURM_STEP_TASKS_PER_NODE", *text, tasks.size());
  at.local_size = tasks[static_cast<std::size_t>(node)];
  at.cross_size = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i] <= at.local_rank) continue;
    if (i == static_cast<std::size_t>(node)) at.cross_rank = at.cross_size;
    ++at.cross_size;
  }
  // 0 only for contradictory variables, which the check of the local rank reports.
  at.cross_size = std::max(at.cross_size, 1);
  return {};
}

// MPI may number the processes of a host by where it binds them. On one host Xoe numbers them by rank, as Horovod does.
void number_by_rank(Topology& at) {
  if (at.local_size == at.size) at.local_rank = at.rank;
}

}  // namespace

bool started_by_openmpi(const Env& env) { return env.has("OMPI_COMM_WORLD_RANK") || env.has("OMPI_COMM_WORLD_SIZE"); }

Result<LaunchInfo> read_openmpi(const Env& env) {
  LaunchInfo info = info_of("openmpi");
  XOE_ASSIGN(info.topology, read_topology(env,
                                          {.rank = "OMPI_COMM_WORLD_RANK",
                                           .size = "OMPI_COMM_WORLD_SIZE",
                                           .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                                           .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                          /*local_needed=*/true, /*fill_cross=*/true));
  number_by_rank(info.topology);
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"})
    if (info.job.empty()) info.job = env.text(name).value_or("");
  if (info.job.empty())
    return failure(Code::kInvalidArgument, "environment variable {} is missing: it names the job of Open MPI",
                   "PMIX_NAMESPACE");
  // The namespace is unique among the jobs of one mpirun; the server's address distinguishes mpiruns.
  for (const char* name : {"PMIX_SERVER_URI2", "OMPI_MCA_orte_hnp_uri"})
    if (const auto address = env.text(name)) info.job.append("@").append(*address);
  // A random key of the job, which is in the environment of its processes only.
  info.secret = env.text("OMPI_MCA_orte_precondition_transports").value_or("");
  return info;
}

bool started_by_mpich(const Env& env) {
  // Slurm's own PMI sets these too, but not the local ones; then Slurm's variables are better.
  return env.has("PMI_RANK") && env.has("PMI_SIZE") && (env.has("MPI_LOCALRANKID") || !started_by_slurm(env));
}

Result<LaunchInfo> read_mpich(const Env& env) {
  LaunchInfo info = info_of("mpich");
  XOE_ASSIGN(
      info.topology,
      read_topology(
          env,
          {.rank = "PMI_RANK", .size = "PMI_SIZE", .local_rank = "MPI_LOCALRANKID", .local_size = "MPI_LOCALNRANKS"},
          /*local_needed=*/false, /*fill_cross=*/true));
  number_by_rank(info.topology);
  XOE_ASSIGN(info.job, launcher_above("PMI_RANK", "hydra"));
  return info;
}

bool started_by_jsrun(const Env& env) { return env.has("JSM_NAMESPACE_RANK") || env.has("JSM_NAMESPACE_SIZE"); }

Result<LaunchInfo> read_jsrun(const Env& env) {
  LaunchInfo info = info_of("jsrun");
  XOE_ASSIGN(info.topology, read_topology(env,
                                          {.rank = "JSM_NAMESPACE_RANK",
                                           .size = "JSM_NAMESPACE_SIZE",
                                           .local_rank = "JSM_NAMESPACE_LOCAL_RANK",
                                           .local_size = "JSM_NAMESPACE_LOCAL_SIZE"},
                                          /*local_needed=*/true, /*fill_cross=*/true));
  const auto job = env.text("LSB_JOBID");
  if (!job) return failure(Code::kInvalidArgument, "environment variable {} is missing: it names the job", "LSB_JOBID");
  info.job = fmt::format("{}.{}", *job, env.text("PMIX_NAMESPACE").value_or(""));
  if (const auto path = env.text("LSB_DJOB_RANKFILE")) info.meeting = first_compute_node(*path);
  return info;
}

bool started_by_slurm(const Env& env) {
  if (!env.has("SLURM_PROCID")) return false;
  const auto step = env.text("SLURM_STEP_ID");
  if (!step) return false;
  const auto number = parse_integer(*step);
  return number && *number >= 0 && *number < kFirstSpecialStep;
}

Result<LaunchInfo> read_slurm(const Env& env) {
  LaunchInfo info = info_of("slurm");
  Topology& at = info.topology;
  const char* size_name = env.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  XOE_ASSIGN(at.rank, needed_value(env, "SLURM_PROCID"));
  XOE_ASSIGN(at.size, needed_value(env, size_name));
  XOE_ASSIGN(at.local_rank, needed_value(env, "SLURM_LOCALID"));
  XOE_TRY(place_on_slurm_nodes(env, at));
  XOE_TRY(check_topology(at, {.rank = "SLURM_PROCID",
                              .size = size_name,
                              .local_rank = "SLURM_LOCALID",
                              .local_size = "SLURM_STEP_TASKS_PER_NODE",
                              .cross_rank = "SLURM_NODEID",
                              .cross_size = "SLURM_STEP_TASKS_PER_NODE"}));
  const auto job = env.text("SLURM_JOB_ID");
  if (!job) return failure(Code::kInvalidArgument, "environment variable {} is missing", "SLURM_JOB_ID");
  info.job = fmt::format("{}.{}", *job, env.text("SLURM_STEP_ID").value_or(""));
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_NODELIST"})
    if (const auto nodes = env.text(name); nodes && info.meeting.empty()) info.meeting = first_of_node_list(*nodes);
  // The node's name, also where several nodes are simulated on one machine.
  if (const auto node = env.text("SLURMD_NODENAME")) info.host = *node;
  return info;
}

bool started_by_torchrun(const Env& env) { return env.has("TORCHELASTIC_RUN_ID"); }

bool looks_like_torch_distributed(const Env& env) {
  return env.has("RANK") && env.has("WORLD_SIZE") && env.has("MASTER_ADDR") && env.has("MASTER_PORT");
}

Result<LaunchInfo> read_torchrun(const Env& env) {
  LaunchInfo info = info_of("torchrun");
  XOE_ASSIGN(info.topology, read_topology(env,
                                          {.rank = "RANK",
                                           .size = "WORLD_SIZE",
                                           .local_rank = "LOCAL_RANK",
                                           .local_size = "LOCAL_WORLD_SIZE",
                                           .cross_rank = "GROUP_RANK",
                                           .cross_size = "GROUP_WORLD_SIZE"},
                                          /*local_needed=*/false, /*fill_cross=*/true));
  info.meeting = env.text("MASTER_ADDR").value_or("");
  // A restarted group is a new one: the counter is part of its name.
  info.job = fmt::format("{}/{}/{}:{}", env.text("TORCHELASTIC_RUN_ID").value_or("none"),
                         env.text("TORCHELASTIC_RESTART_COUNT").value_or("0"), env.text("MASTER_ADDR").value_or(""),
                         env.text("MASTER_PORT").value_or(""));
  return info;
}

}  // namespace xoe::bootstrap

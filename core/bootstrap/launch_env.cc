#include "core/bootstrap/launch_env.h"

#include <unistd.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/machine.h"
#include "core/bootstrap/foreign_env.h"
#include "core/bootstrap/launch_values.h"

namespace xoe::bootstrap {
namespace {

// Below the ephemeral ports, and the same on all hosts.
int meeting_port(std::string_view job) { return 10000 + static_cast<int>(hash_text(job) % 20000); }

Result<LaunchInfo> read_xoe(const Env& env) {
  LaunchInfo info{.topology = {}, .launcher = "xoe", .job = {}, .store = {}, .secret = {}};
  XOE_ASSIGN(info.topology, read_topology(env,
                                          {.rank = "XOE_RANK",
                                           .size = "XOE_SIZE",
                                           .local_rank = "XOE_LOCAL_RANK",
                                           .local_size = "XOE_LOCAL_SIZE",
                                           .cross_rank = "XOE_CROSS_RANK",
                                           .cross_size = "XOE_CROSS_SIZE"},
                                          /*local_needed=*/false, /*fill_cross=*/false));
  info.job = env.text("XOE_JOB").value_or("");
  info.store = env.text("XOE_STORE").value_or("");
  info.secret = env.text("XOE_SECRET").value_or("");
  info.meeting = env.text("XOE_MEETING").value_or("");
  info.host = env.text("XOE_HOSTNAME").value_or(host_name());
  if (info.topology.size > 1 && info.job.empty() && info.store.empty())
    return failure(Code::kInvalidArgument, "environment variable XOE_JOB is missing: {} ranks cannot find each other",
                   info.topology.size);
  if (info.job.empty()) info.job = info.store.empty() ? "alone" : info.store;
  return info;
}

// Completes what other launchers do not set.
Result<LaunchInfo> complete(Result<LaunchInfo> read, const Env& env) {
  if (!read) return read;
  LaunchInfo& info = *read;
  if (const auto host = env.text("XOE_HOSTNAME")) info.host = *host;
  if (info.host.empty()) info.host = host_name();
  info.store = env.text("XOE_STORE").value_or("");
  if (const auto secret = env.text("XOE_SECRET")) info.secret = *secret;
  if (info.topology.size == info.topology.local_size) return read;
  if (!info.meeting.empty()) info.meeting = fmt::format("{}:{}", info.meeting, meeting_port(info.job));
  return read;
}

}  // namespace

Result<LaunchInfo> read_launch_info(const Env& env) {
  for (const char* name : {"XOE_RANK", "XOE_SIZE", "XOE_LOCAL_RANK", "XOE_LOCAL_SIZE"})
    if (env.has(name)) return read_xoe(env);
  // torchrun may run inside a Slurm step or an MPI job; then it has started this process, so it is tried first.
  if (started_by_torchrun(env)) return complete(read_torchrun(env), env);
  if (started_by_openmpi(env)) return complete(read_openmpi(env), env);
  if (started_by_jsrun(env)) return complete(read_jsrun(env), env);
  if (started_by_mpich(env)) return complete(read_mpich(env), env);
  if (started_by_slurm(env)) return complete(read_slurm(env), env);
  if (looks_like_torch_distributed(env)) return complete(read_torchrun(env), env);
  return LaunchInfo{.topology = {}, .launcher = "none", .job = "alone", .store = {}, .secret = {}};
}

}  // namespace xoe::bootstrap

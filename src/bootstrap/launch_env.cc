#include "bootstrap/launch_env.h"

#include "base/error.h"
#include "bootstrap/foreign_env.h"
#include "bootstrap/launch_values.h"

namespace xoe::bootstrap {
namespace {

Result<LaunchInfo> read_xoe(const Env& env) {
  const LaunchValues values(env);
  LaunchInfo info{.topology = {}, .launcher = "xoe", .job = {}, .store = {}, .secret = {}};
  Topology& at = info.topology;
  XOE_ASSIGN(at.rank, values.needed("XOE_RANK"));
  XOE_ASSIGN(at.size, values.needed("XOE_SIZE"));
  XOE_ASSIGN(at.local_rank, values.value_or("XOE_LOCAL_RANK", at.rank));
  XOE_ASSIGN(at.local_size, values.value_or("XOE_LOCAL_SIZE", at.size));
  XOE_ASSIGN(at.cross_rank, values.value_or("XOE_CROSS_RANK", 0));
  XOE_ASSIGN(at.cross_size, values.value_or("XOE_CROSS_SIZE", 1));
  XOE_TRY(check_topology(at, {.rank = "XOE_RANK",
                              .size = "XOE_SIZE",
                              .local_rank = "XOE_LOCAL_RANK",
                              .local_size = "XOE_LOCAL_SIZE",
                              .cross_rank = "XOE_CROSS_RANK",
                              .cross_size = "XOE_CROSS_SIZE"}));
  info.job = env.text("XOE_JOB").value_or("");
  info.store = env.text("XOE_STORE").value_or("");
  info.secret = env.text("XOE_SECRET").value_or("");
  if (at.size > 1 && info.job.empty() && info.store.empty())
    return failure(Code::kInvalidArgument, "environment variable XOE_JOB is missing: {} ranks cannot find each other",
                   at.size);
  if (info.job.empty()) info.job = info.store.empty() ? "alone" : info.store;
  return info;
}

}  // namespace

Result<LaunchInfo> read_launch_info(const Env& env) {
  for (const char* name : {"XOE_RANK", "XOE_SIZE", "XOE_LOCAL_RANK", "XOE_LOCAL_SIZE"})
    if (env.has(name)) return read_xoe(env);
  // torchrun inside a Slurm step or an MPI job is what started this process, so it comes first where it says its name.
  if (started_by_torchrun(env)) return read_torchrun(env);
  if (started_by_openmpi(env)) return read_openmpi(env);
  if (started_by_mpich(env)) return read_mpich(env);
  if (started_by_slurm(env)) return read_slurm(env);
  if (looks_like_torch_distributed(env)) return read_torchrun(env);
  return LaunchInfo{.topology = {}, .launcher = "none", .job = "alone", .store = {}, .secret = {}};
}

}  // namespace xoe::bootstrap

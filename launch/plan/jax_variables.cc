#include "launch/plan/jax_variables.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace xoe::launch {
namespace {

// Beside the programs of an installation, or of a build.
std::string library() {
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return (folder.parent_path() / "lib" / "libxoe_mpi.so").string();
}

}  // namespace

Result<bool> wants_jax(const Variables& variables) {
  const auto jax = variables.find("XOE_JAX");
  if (jax == variables.end() || jax->second != "1") return false;
  std::error_code ignored;
  if (!variables.contains("MPITRAMPOLINE_LIB") && !std::filesystem::exists(library(), ignored))
    return failure(Code::kUnavailable, "--jax: {} is not there; use the xoe of Xoe's Python package, which has it",
                   library());
  return true;
}

// jax.distributed.initialize() understands the variables of Open MPI's launcher: the address of the first host, and a
// port that it computes from the job's number, a multiple of 4096 (jax/_src/clusters/ompi_cluster.py). Collectives on
// CPUs go through an MPI library that jaxlib loads.
void set_jax_variables(Variables& variables, const Topology& at, std::string_view first_host, std::string_view job) {
  constexpr std::uint64_t kJobs = 4096;
  const std::uint64_t number = hash_text(job) % kJobs * kJobs;
  const bool is_ipv6 = first_host.find(':') != std::string_view::npos;
  variables["OMPI_MCA_orte_hnp_uri"] = is_ipv6 ? fmt::format("{}.0;tcp6://[{}]:0", number, first_host)
                                               : fmt::format("{}.0;tcp://{}:0", number, first_host);
  variables["OMPI_COMM_WORLD_SIZE"] = std::to_string(at.size);
  variables["OMPI_COMM_WORLD_RANK"] = std::to_string(at.rank);
  variables["OMPI_COMM_WORLD_LOCAL_RANK"] = std::to_string(at.local_rank);
  // A scheduler's are about hosts, not ranks.
  for (const char* const name : {"JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"})
    variables.erase(name);
  variables.try_emplace("JAX_CPU_COLLECTIVES_IMPLEMENTATION", "mpi");
  variables.try_emplace("MPITRAMPOLINE_LIB", library());
}

}  // namespace xoe::launch

#include "core/base/known_variables.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/base/nearest_word.h"

namespace xoe {
namespace {

constexpr std::string_view kPrefix = "XOE_";

constexpr std::string_view kKnown[] = {
    "XOE_ARENA_BYTES",
    "XOE_BACKEND",
    "XOE_BUCKET_BYTES",
    "XOE_CACHE_CAPACITY",
    "XOE_CHECK_FIRST_STEP",
    "XOE_CODEC_STATE",
    "XOE_CROSS_RANK",
    "XOE_CROSS_SIZE",
    "XOE_DETERMINISTIC",
    "XOE_ENCRYPT",
    "XOE_FUSION_THRESHOLD",
    "XOE_GPU",
    "XOE_GPU_STAGING",
    "XOE_GPU_WAIT",
    "XOE_HOME",
    "XOE_HOSTNAME",
    "XOE_HOST_TIMEOUT",
    "XOE_INTERFACE",
    "XOE_IN_FLIGHT",
    "XOE_JAX",
    "XOE_JOB",
    "XOE_KEEP_FREED_MEMORY",
    "XOE_KEY_FILE",
    "XOE_LOCAL_RANK",
    "XOE_LOCAL_SIZE",
    "XOE_MEETING",
    "XOE_METRICS_PORT",
    "XOE_MIN_RANKS",
    "XOE_MPI",
    "XOE_NCCL_LIBRARY",
    "XOE_NCCL_REGISTER",
    "XOE_NCCL_SHARE_GPU",
    "XOE_NET",
    "XOE_NODES",
    "XOE_NVTX",
    "XOE_PACKAGE_PYTHON",
    "XOE_PACK_LIMIT",
    "XOE_PLUGIN_DIR",
    "XOE_POOL",
    "XOE_POOL_LEASE",
    "XOE_POOL_RUN",
    "XOE_POOL_TOKEN_FILE",
    "XOE_PRETEND_HOSTS",
    "XOE_PROGRESS_THREAD",
    "XOE_RANK",
    "XOE_RENDEZVOUS_SECRET_FILE",
    "XOE_RESTARTS",
    "XOE_SECRET",
    "XOE_SIZE",
    "XOE_STALL_LIMIT",
    "XOE_STALL_WARNING",
    "XOE_START_TIMEOUT",
    "XOE_STATUS",
    "XOE_STORE",
    "XOE_TERMINAL",
    "XOE_TIMELINE",
    "XOE_TIMEOUT",
    "XOE_TORCH_REPLACES",
    "XOE_TUNE",
    "XOE_TUNE_FILE",
    "XOE_WORLD",
};

}  // namespace

std::span<const std::string_view> known_variables() noexcept { return kKnown; }

std::vector<std::string> misspelt_variables(const Env& env) {
  std::vector<std::string_view> endings;  // the common beginning would make all names alike
  for (const std::string_view name : kKnown) endings.push_back(name.substr(kPrefix.size()));
  std::vector<std::string> sentences;
  for (const auto& [name, value] : env.all()) {
    if (!name.starts_with(kPrefix) || std::ranges::find(kKnown, name) != std::end(kKnown)) continue;
    const auto meant = nearest_word(std::string_view(name).substr(kPrefix.size()), endings);
    if (!meant.empty())
      sentences.push_back(
          fmt::format("{} is set, but is no variable of Xoe; did you mean {}{}?", name, kPrefix, meant));
  }
  return sentences;
}

}  // namespace xoe

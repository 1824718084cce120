// The meaning of Horovod's environment variables.
#include <algorithm>
#include <array>
#include <utility>

#include "core/engine/options/engine_options.h"

namespace xoe::engine {
namespace {

using Note = std::pair<std::string_view, std::string_view>;

struct Mapped {
  std::string_view variable;
  std::string_view field = {};  // of EngineOptions, which has the same values
};

constexpr std::array kMapped = {
    Mapped{"HOROVOD_AUTOTUNE", "tune"},
    Mapped{"HOROVOD_CACHE_CAPACITY", "cache_capacity"},
    Mapped{"HOROVOD_DISABLE_NVTX_RANGES"},
    Mapped{"HOROVOD_FUSION_THRESHOLD", "fusion_threshold"},
    Mapped{"HOROVOD_STALL_CHECK_DISABLE"},
    Mapped{"HOROVOD_STALL_CHECK_TIME_SECONDS", "stall_warning"},
    Mapped{"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "stall_limit"},
    Mapped{"HOROVOD_TIMELINE", "timeline"},
};

constexpr std::string_view kRanks =
    "ranks come from `xoe run` (XOE_RANK, XOE_SIZE, ...), Open MPI, MPICH, Slurm or torchrun";
constexpr std::string_view kTuner = "the tuner has no such setting; XOE_TUNE turns it on and off";
constexpr std::string_view kHierarchy = "the way through shared memory and between hosts is chosen from the topology";
constexpr std::string_view kMpi = "it concerns Horovod's own use of MPI";
constexpr std::string_view kRendezvous = "ranks meet at the launcher's store (XOE_STORE)";
constexpr std::string_view kGpu = "it concerns Horovod's own use of NCCL and CUDA";
constexpr std::string_view kElastic = "it concerns Horovod's elastic launcher";
constexpr std::string_view kSpark = "it concerns Horovod on Spark";
constexpr std::string_view kLog = "Xoe prints warnings only, and EngineOptions::warn takes them elsewhere";
constexpr std::string_view kBuild = "it concerns the building of Horovod";

constexpr std::array kNotes = {
    Note{"CYCLE_TIME", "there is no cycle: an operation starts as soon as all its ranks have submitted it"},
    Note{"TIMELINE_MARK_CYCLES", "there is no cycle to mark"},
    Note{"HIERARCHICAL_ALLREDUCE", kHierarchy},
    Note{"HIERARCHICAL_ALLGATHER", kHierarchy},
    Note{"TORUS_ALLREDUCE", kHierarchy},
    Note{"CPU_OPERATIONS", kHierarchy},
    Note{"CONTROLLER", "ranks agree through shared memory, without a controller"},
    Note{"BATCH_D2D_MEMCOPIES", kGpu},
    Note{"NUM_NCCL_STREAMS", kGpu},
    Note{"ENABLE_ASYNC_COMPLETION", kGpu},
    Note{"GLOO_IFACE", kRendezvous},
    Note{"GLOO_RENDEZVOUS_ADDR", kRendezvous},
    Note{"GLOO_RENDEZVOUS_PORT", kRendezvous},
    Note{"GLOO_TIMEOUT_SECONDS", "XOE_TIMEOUT says how long an operation waits for its peers"},
    Note{"START_TIMEOUT", "XOE_START_TIMEOUT says how long to wait for all ranks to appear"},
    Note{"RANK", kRanks},
    Note{"SIZE", kRanks},
    Note{"LOCAL_RANK", kRanks},
    Note{"LOCAL_SIZE", kRanks},
    Note{"CROSS_RANK", kRanks},
    Note{"CROSS_SIZE", kRanks},
    Note{"HOSTNAME", kRanks},
    Note{"SECRET_KEY", "`xoe run` makes a secret for each job (XOE_SECRET)"},
    Note{"ELASTIC", kElastic},
    Note{"ELASTIC_TIMEOUT", kElastic},
    Note{"AUTOTUNE_LOG", "XOE_TUNE_FILE keeps what the tuner has found, and /metrics shows what it uses"},
    Note{"AUTOTUNE_WARMUP_SAMPLES", kTuner},
    Note{"AUTOTUNE_STEPS_PER_SAMPLE", kTuner},
    Note{"AUTOTUNE_BAYES_OPT_MAX_SAMPLES", kTuner},
    Note{"AUTOTUNE_GAUSSIAN_PROCESS_NOISE", kTuner},
    Note{"MPI_THREADS_DISABLE", kMpi},
    Note{"ADASUM_MPI_CHUNK_SIZE", kMpi},
    Note{"THREAD_AFFINITY", "`xoe run --bind-to` binds ranks to cores"},
    Note{"DISABLE_GROUP_FUSION",
         "a group completes together however it is fused; XOE_FUSION_THRESHOLD=0 fuses nothing"},
    Note{"DYNAMIC_PROCESS_SETS", "process sets may be added and removed at any time"},
    Note{"ENABLE_XLA_OPS", "collectives in functions that XLA compiles are always its calls"},
    Note{"CCL_CACHE", "it concerns Horovod's own use of oneCCL"},
    Note{"CCL_BGT_AFFINITY", "it concerns Horovod's own use of oneCCL"},
    Note{"LOG_LEVEL", kLog},
    Note{"LOG_HIDE_TIME", kLog},
    Note{"LOG_TIMESTAMP", kLog},
    Note{"SPARK_START_TIMEOUT", kSpark},
    Note{"SPARK_USE_LOCAL_RANK_GPU_INDEX", kSpark},
    Note{"SPARK_PYTHONPATH", kSpark},
    Note{"SPARK_WORK_DIR", kSpark},
    Note{"ALLOW_MIXED_GPU_IMPL", kBuild},
    Note{"CMAKE", kBuild},
    Note{"CUDA_HOME", kBuild},
    Note{"ROCM_HOME", kBuild},
    Note{"DEBUG", kBuild},
    Note{"GPU", kBuild},
    Note{"LOCAL_VERSION", kBuild},
    Note{"NVTX_INCLUDE", kBuild},
    Note{"SKIP_COMPILE", kBuild},
};

constexpr std::array kBuildPrefixes = {std::string_view("WITH_"), std::string_view("WITHOUT_"),
                                       std::string_view("GPU_"), std::string_view("NCCL_"), std::string_view("BUILD_")};

}  // namespace

std::optional<std::string_view> horovod_name(std::string_view field) {
  const auto* const found = std::ranges::find(kMapped, field, &Mapped::field);
  return found == kMapped.end() ? std::nullopt : std::optional(found->variable);
}

std::optional<std::string_view> why_no_meaning(std::string_view name) {
  if (std::ranges::find(kMapped, name, &Mapped::variable) != kMapped.end()) return std::nullopt;
  name.remove_prefix(std::string_view("HOROVOD_").size());
  const auto* const note = std::ranges::find(kNotes, name, &Note::first);
  if (note != kNotes.end()) return note->second;
  for (const std::string_view prefix : kBuildPrefixes)
    if (name.starts_with(prefix)) return kBuild;
  return "neither Xoe nor Horovod 0.28 knows it";
}

}  // namespace xoe::engine

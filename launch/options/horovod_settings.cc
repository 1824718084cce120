#include "launch/options/horovod_settings.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::launch {
namespace {

using Form = HorovodSetting::Form;

constexpr std::array kSettings{
    HorovodSetting{"params", "fusion_threshold_mb", "--fusion-threshold-mb", "HOROVOD_FUSION_THRESHOLD",
                   Form::kMegabytes},
    HorovodSetting{"params", "cycle_time_ms", "--cycle-time-ms", "HOROVOD_CYCLE_TIME"},
    HorovodSetting{"params", "cache_capacity", "--cache-capacity", "HOROVOD_CACHE_CAPACITY"},
    HorovodSetting{"params", "hierarchical_allreduce", "--hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE",
                   Form::kSwitch},
    HorovodSetting{"params", "hierarchical_allgather", "--hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER",
                   Form::kSwitch},
    HorovodSetting{"params", "torus_allreduce", "--torus-allreduce", "HOROVOD_TORUS_ALLREDUCE", Form::kSwitch},
    HorovodSetting{"autotune", "enabled", "--autotune", "HOROVOD_AUTOTUNE", Form::kSwitch},
    HorovodSetting{"autotune", "log_file", "--autotune-log-file", "HOROVOD_AUTOTUNE_LOG"},
    HorovodSetting{"autotune", "warmup_samples", "--autotune-warmup-samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES"},
    HorovodSetting{"autotune", "steps_per_sample", "--autotune-steps-per-sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"},
    HorovodSetting{"autotune", "bayes_opt_max_samples", "--autotune-bayes-opt-max-samples",
                   "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"},
    HorovodSetting{"autotune", "gaussian_process_noise", "--autotune-gaussian-process-noise",
                   "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"},
    HorovodSetting{"timeline", "filename", "--timeline-filename", "HOROVOD_TIMELINE"},
    HorovodSetting{"timeline", "mark_cycles", "--timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES", Form::kSwitch},
    HorovodSetting{"stall_check", "enabled", "--stall-check", "HOROVOD_STALL_CHECK_DISABLE", Form::kOff},
    HorovodSetting{"stall_check", "warning_time_seconds", "--stall-check-warning-time-seconds",
                   "HOROVOD_STALL_CHECK_TIME_SECONDS"},
    HorovodSetting{"stall_check", "shutdown_time_seconds", "--stall-check-shutdown-time-seconds",
                   "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"},
    HorovodSetting{"library_options", "mpi_threads_disable", "--mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE",
                   Form::kSwitch},
    HorovodSetting{"library_options", "num_nccl_streams", "--num-nccl-streams", "HOROVOD_NUM_NCCL_STREAMS"},
    HorovodSetting{"library_options", "ccl_bgt_affinity", "--ccl-bgt-affinity", "HOROVOD_CCL_BGT_AFFINITY"},
    HorovodSetting{"library_options", "gloo_timeout_seconds", "--gloo-timeout-seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS"},
    HorovodSetting{"library_options", "thread_affinity", "--thread-affinity", "HOROVOD_THREAD_AFFINITY"},
    HorovodSetting{"logging", "level", "--log-level", "HOROVOD_LOG_LEVEL"},
    HorovodSetting{"logging", "hide_timestamp", "--log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME", Form::kSwitch}};

struct IgnoredFlag {
  std::string_view flag;
  std::string_view reason;
  bool has_value = false;
  bool refused = false;
};

constexpr std::string_view kEngine =
    "ranks find each other without a controller; --backend chooses what they talk over";

constexpr std::array kIgnoredFlags{IgnoredFlag{"--gloo", kEngine},
                                   IgnoredFlag{"--use-gloo", kEngine},
                                   IgnoredFlag{"--mpi", kEngine},
                                   IgnoredFlag{"--use-mpi", kEngine},
                                   IgnoredFlag{"--jsrun", "start ranks with jsrun itself", false, true},
                                   IgnoredFlag{"--mpi-args", "ranks are not started by mpirun", true},
                                   IgnoredFlag{"--tcp", "ranks are not started by mpirun"},
                                   IgnoredFlag{"--binding-args", "--bind-to binds ranks", true},
                                   IgnoredFlag{"--disable-cache", "hosts are checked each time"},
                                   IgnoredFlag{"--verbose", "failures are reported without it"},
                                   IgnoredFlag{"--prefix-output-with-timestamp", "lines have no time"},
                                   IgnoredFlag{"-prefix-timestamp", "lines have no time"},
                                   IgnoredFlag{"--log-with-timestamp", "Xoe prints warnings only"},
                                   IgnoredFlag{"--log-without-timestamp", "Xoe prints warnings only"},
                                   IgnoredFlag{"--check-build", "`xoe doctor` says which backends load", false, true},
                                   IgnoredFlag{"-cb", "`xoe doctor` says which backends load", false, true}};

std::optional<bool> truth_of(std::string_view value) {
  for (const std::string_view word : {"true", "True", "TRUE", "yes", "on", "1"})
    if (value == word) return true;
  for (const std::string_view word : {"false", "False", "FALSE", "no", "off", "0"})
    if (value == word) return false;
  return std::nullopt;
}

// The variable's value; empty: it is not set.
Result<std::string> variable_value(const HorovodSetting& setting, const std::string& value) {
  if (setting.form == Form::kPlain) return value;
  if (setting.form == Form::kMegabytes) {
    const auto megabytes = parse_number(value);
    if (!megabytes || !(*megabytes >= 0) || *megabytes > 1e6)
      return failure(Code::kInvalidArgument, "{}: {}: expected megabytes", setting.key, value);
    return std::to_string(static_cast<std::int64_t>(*megabytes * 1048576));
  }
  const auto truth = truth_of(value);
  if (!truth) return failure(Code::kInvalidArgument, "{}: {}: expected true or false", setting.key, value);
  if (setting.form == Form::kOff) return std::string(*truth ? "" : "1");
  return std::string(*truth ? "1" : "0");
}

bool takes_value(const HorovodSetting& setting) {
  return setting.form == Form::kPlain || setting.form == Form::kMegabytes;
}

}  // namespace

std::span<const HorovodSetting> horovod_settings() noexcept { return kSettings; }

Status apply_horovod_setting(const HorovodSetting& setting, const std::string& value, RunArguments& run) {
  if (value.empty()) return {};
  XOE_ASSIGN(std::string text, variable_value(setting, value));
  if (!text.empty()) run.options.env.emplace_back(setting.variable, std::move(text));
  return {};
}

std::optional<HorovodFlag> find_horovod_flag(std::string_view name) noexcept {
  for (const IgnoredFlag& flag : kIgnoredFlags)
    if (flag.flag == name)
      return HorovodFlag{.reason = flag.reason, .has_value = flag.has_value, .refused = flag.refused};
  constexpr std::string_view kNo = "--no-";
  for (const HorovodSetting& setting : kSettings) {
    const bool takes = takes_value(setting);
    if (setting.flag == name)
      return HorovodFlag{.setting = &setting, .implied = takes ? "" : "true", .has_value = takes};
    if (!takes && name.starts_with(kNo) && name.substr(kNo.size()) == setting.flag.substr(2))
      return HorovodFlag{.setting = &setting, .implied = "false"};
  }
  return std::nullopt;
}

}  // namespace xoe::launch

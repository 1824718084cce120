// Horovod's configuration files: sections, and below each `name: value` with a plain value. That much of YAML and no
// more.
#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "launch/config_file.h"

namespace xoe::launch {
namespace {

enum class Form : std::uint8_t {
  kPlain,
  kMegabytes,  // becomes bytes
  kSwitch,     // true or false become 1 or 0
  kOff,        // false becomes 1, true nothing
};

struct Setting {
  std::string_view section;
  std::string_view key;
  std::string_view variable;  // what the ranks read; those without a meaning here are explained by them
  Form form = Form::kPlain;
};

constexpr std::array kSettings{
    Setting{"params", "fusion_threshold_mb", "HOROVOD_FUSION_THRESHOLD", Form::kMegabytes},
    Setting{"params", "cycle_time_ms", "HOROVOD_CYCLE_TIME"},
    Setting{"params", "cache_capacity", "HOROVOD_CACHE_CAPACITY"},
    Setting{"params", "hierarchical_allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", Form::kSwitch},
    Setting{"params", "hierarchical_allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", Form::kSwitch},
    Setting{"params", "torus_allreduce", "HOROVOD_TORUS_ALLREDUCE", Form::kSwitch},
    Setting{"autotune", "enabled", "HOROVOD_AUTOTUNE", Form::kSwitch},
    Setting{"autotune", "log_file", "HOROVOD_AUTOTUNE_LOG"},
    Setting{"autotune", "warmup_samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES"},
    Setting{"autotune", "steps_per_sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"},
    Setting{"autotune", "bayes_opt_max_samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"},
    Setting{"autotune", "gaussian_process_noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"},
    Setting{"timeline", "filename", "HOROVOD_TIMELINE"},
    Setting{"timeline", "mark_cycles", "HOROVOD_TIMELINE_MARK_CYCLES", Form::kSwitch},
    Setting{"stall_check", "enabled", "HOROVOD_STALL_CHECK_DISABLE", Form::kOff},
    Setting{"stall_check", "warning_time_seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS"},
    Setting{"stall_check", "shutdown_time_seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"},
    Setting{"library_options", "mpi_threads_disable", "HOROVOD_MPI_THREADS_DISABLE", Form::kSwitch},
    Setting{"library_options", "num_nccl_streams", "HOROVOD_NUM_NCCL_STREAMS"},
    Setting{"library_options", "ccl_bgt_affinity", "HOROVOD_CCL_BGT_AFFINITY"},
    Setting{"library_options", "gloo_timeout_seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS"},
    Setting{"library_options", "thread_affinity", "HOROVOD_THREAD_AFFINITY"},
    Setting{"logging", "level", "HOROVOD_LOG_LEVEL"},
    Setting{"logging", "hide_timestamp", "HOROVOD_LOG_HIDE_TIME", Form::kSwitch}};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Without its quotes, or without the comment behind it; nullopt for what is no plain value.
std::optional<std::string> plain_value(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('"') || text.starts_with('\'')) {
    const auto end = text.find(text.front(), 1);
    if (end == text.npos) return std::nullopt;
    const auto rest = trimmed(text.substr(end + 1));
    if (!rest.empty() && !rest.starts_with('#')) return std::nullopt;
    const auto inside = text.substr(1, end - 1);
    if (text.front() == '"' && inside.find('\\') != inside.npos) return std::nullopt;
    return std::string(inside);
  }
  if (const auto comment = text.find(" #"); comment != text.npos) text = trimmed(text.substr(0, comment));
  if (text.starts_with('#')) text = {};
  if (text.find_first_of("[]{}&*|>!%@`") == 0) return std::nullopt;
  return std::string(text);
}

std::optional<bool> truth_of(std::string_view value) {
  for (const std::string_view word : {"true", "True", "TRUE", "yes", "on", "1"})
    if (value == word) return true;
  for (const std::string_view word : {"false", "False", "FALSE", "no", "off", "0"})
    if (value == word) return false;
  return std::nullopt;
}

// The variable's value; empty: it is not set.
Result<std::string> variable_value(const Setting& setting, const std::string& value) {
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

Status apply_setting(std::string_view section, std::string_view key, const std::string& value, RunArguments& run) {
  if (value.empty() || value == "~" || value == "null") return {};
  const auto setting =
      std::ranges::find_if(kSettings, [&](const Setting& one) { return one.section == section && one.key == key; });
  if (setting == kSettings.end())
    return failure(Code::kInvalidArgument, "there is no setting {} in the section {}", key, section);
  XOE_ASSIGN(std::string text, variable_value(*setting, value));
  if (!text.empty()) run.options.env.emplace_back(setting->variable, std::move(text));
  return {};
}

bool is_section(std::string_view name) {
  return std::ranges::find(kSettings, name, &Setting::section) != kSettings.end();
}

// One line that says something; `section` changes with it.
Status read_line_of(std::string_view line, std::string& section, RunArguments& run) {
  const bool indented = line.starts_with(' ');
  if (line.starts_with('\t')) return failure(Code::kInvalidArgument, "{}", "YAML is indented with spaces, not tabs");
  const auto colon = line.find(':');
  const std::string key(trimmed(line.substr(0, colon)));
  if (colon == line.npos || (colon + 1 < line.size() && line[colon + 1] != ' ' && line[colon + 1] != '\r'))
    return failure(Code::kInvalidArgument, "\"{}\": expected `name: value`", trimmed(line));
  const auto value = plain_value(line.substr(colon + 1));
  if (!value) return failure(Code::kInvalidArgument, "{}: expected a plain value", key);
  if (indented) {
    if (section.empty()) return failure(Code::kInvalidArgument, "{} stands in no section", key);
    return apply_setting(section, key, *value, run);
  }
  if (!is_section(key) || !value->empty())
    return failure(Code::kInvalidArgument,
                   "{}: expected one of the sections params, autotune, timeline, stall_check, library_options, logging",
                   key);
  section = key;
  return {};
}

}  // namespace

Status read_yaml_config(std::string_view text, std::string_view path, RunArguments& run) {
  std::string section;
  std::size_t number = 0;
  for (const std::string& line : split_text(text, '\n')) {
    ++number;
    const auto content = trimmed(line);
    if (content.empty() || content.starts_with('#') || content == "---") continue;
    if (const auto read = read_line_of(line, section, run); !read)
      return failure(Code::kInvalidArgument, "{} line {}: {}", path, number, read.error().message());
  }
  return {};
}

}  // namespace xoe::launch

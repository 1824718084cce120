#include "core/engine/options/engine_options.h"

#include <chrono>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/known_variables.h"
#include "core/base/text.h"

namespace xoe {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMaxNames = 1 << 20;
constexpr double kMaxSeconds = 1e9;

struct Setting {
  std::string name;  // the variable that was read
  std::string value;
};

// Xoe's own variable, or else Horovod's.
std::optional<Setting> find(const Env& env, std::string_view own, std::string_view theirs = {}) {
  for (const std::string_view name : {own, theirs}) {
    if (name.empty()) continue;
    if (auto value = env.text(name)) return Setting{std::string(name), std::move(*value)};
  }
  return std::nullopt;
}

tl::unexpected<Error> malformed(const Setting& setting, std::string_view expected) {
  return failure(Code::kInvalidArgument, "environment variable {}={}: expected {}", setting.name, setting.value,
                 expected);
}

Status read_bytes(const std::optional<Setting>& setting, std::size_t& bytes) {
  if (!setting) return {};
  const auto value = parse_bytes(setting->value);
  if (!value || *value > static_cast<std::uint64_t>(kMaxBytes)) return malformed(*setting, "bytes, such as 8M");
  bytes = static_cast<std::size_t>(*value);
  return {};
}

Status read_integer(const std::optional<Setting>& setting, std::int64_t low, std::int64_t high, int& number) {
  if (!setting) return {};
  const auto value = parse_integer(setting->value);
  if (!value || *value < low || *value > high)
    return malformed(*setting, fmt::format("a whole number from {} to {}", low, high));
  number = static_cast<int>(*value);
  return {};
}

Status read_switch(const std::optional<Setting>& setting, bool& on) {
  int number = on ? 1 : 0;
  if (!read_integer(setting, 0, 1, number)) return malformed(*setting, "0 or 1");
  on = number == 1;
  return {};
}

Status read_seconds(const std::optional<Setting>& setting, std::chrono::nanoseconds& duration) {
  if (!setting) return {};
  const auto value = parse_number(setting->value);
  if (!value || !(*value >= 0) || *value > kMaxSeconds) return malformed(*setting, "seconds, 0 for never");
  duration = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(*value));
  return {};
}

Status read_tuning(const Env& env, EngineOptions& options) {
  const auto fusion = find(env, "XOE_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD");
  const auto pack = find(env, "XOE_PACK_LIMIT");
  const auto in_flight = find(env, "XOE_IN_FLIGHT");
  XOE_TRY(read_bytes(fusion, options.fusion_threshold));
  XOE_TRY(read_bytes(pack, options.pack_limit));
  XOE_TRY(read_integer(in_flight, 1, 8, options.in_flight));
  // Values that the user has chosen stay, unless the user has asked for tuning too.
  if (fusion || pack || in_flight) options.tune = false;
  XOE_TRY(read_switch(find(env, "XOE_TUNE", "HOROVOD_AUTOTUNE"), options.tune));
  options.tune_file = env.text("XOE_TUNE_FILE").value_or("");
  return {};
}

Status read_cache(const Env& env, EngineOptions& options, std::vector<std::string>& warnings) {
  const auto setting = find(env, "XOE_CACHE_CAPACITY", "HOROVOD_CACHE_CAPACITY");
  if (setting && setting->name.starts_with("HOROVOD_") && setting->value == "0") {
    warnings.emplace_back("HOROVOD_CACHE_CAPACITY=0 has no meaning here: names are always remembered");
    return {};
  }
  return read_integer(setting, 1, kMaxNames, options.cache_capacity);
}

Status read_stall(const Env& env, EngineOptions& options) {
  bool disabled = false;
  XOE_TRY(read_switch(find(env, "HOROVOD_STALL_CHECK_DISABLE"), disabled));
  const auto warning =
      find(env, "XOE_STALL_WARNING", disabled ? std::string_view{} : "HOROVOD_STALL_CHECK_TIME_SECONDS");
  auto limit = find(env, "XOE_STALL_LIMIT", disabled ? std::string_view{} : "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS");
  if (!limit) limit = find(env, "XOE_TIMEOUT");
  if (disabled) options.stall_warning = options.stall_limit = std::chrono::nanoseconds(0);
  XOE_TRY(read_seconds(warning, options.stall_warning));
  // A limit that the user has chosen is kept to the second.
  options.stall_spares_computing = !limit;
  return read_seconds(limit, options.stall_limit);
}

Status read_nvtx(const Env& env, std::optional<bool>& wanted) {
  const auto own = find(env, "XOE_NVTX");
  if (own && own->value == "auto") return {};
  bool on = false;
  if (own) {
    if (!read_switch(own, on)) return malformed(*own, "auto, 0 or 1");
    wanted = on;
    return {};
  }
  XOE_TRY(read_switch(find(env, "HOROVOD_DISABLE_NVTX_RANGES"), on));
  if (on) wanted = false;
  return {};
}

Status read_observation(const Env& env, EngineOptions& options) {
  const auto timeline = find(env, "XOE_TIMELINE", "HOROVOD_TIMELINE");
  // Horovod must know beforehand that start_timeline() will be called; Xoe need not.
  if (timeline && !(timeline->name == "HOROVOD_TIMELINE" && timeline->value == "DYNAMIC"))
    options.timeline = timeline->value;
  XOE_TRY(read_nvtx(env, options.nvtx));
  return read_integer(find(env, "XOE_METRICS_PORT"), 1, 65535, options.metrics_port);
}

}  // namespace

Result<EngineOptions> read_engine_options(const Env& env, std::vector<std::string>& warnings) {
  EngineOptions options;
  XOE_TRY(read_tuning(env, options));
  XOE_TRY(read_cache(env, options, warnings));
  XOE_TRY(read_bytes(find(env, "XOE_CODEC_STATE"), options.codec_state));
  XOE_TRY(read_bytes(find(env, "XOE_BUCKET_BYTES"), options.bucket_bytes));
  XOE_TRY(read_switch(find(env, "XOE_PROGRESS_THREAD"), options.progress_thread));
  XOE_TRY(read_stall(env, options));
  XOE_TRY(read_observation(env, options));
  // `xoe run`, which alone sets this, has told of them already.
  if (!env.has("XOE_CROSS_SIZE"))
    for (std::string& sentence : misspelt_variables(env)) warnings.push_back(std::move(sentence));
  for (const auto& [name, value] : env.all()) {
    if (value.empty() || !name.starts_with("HOROVOD_")) continue;
    // For programs that read Horovod's name, such as HOROVOD_RANK.
    if (env.text("XOE_" + name.substr(std::string_view("HOROVOD_").size())) == value) continue;
    if (const auto reason = engine::why_no_meaning(name))
      warnings.push_back(fmt::format("{} is set and has no meaning here: {}", name, *reason));
  }
  return options;
}

Result<EngineOptions> read_engine_options(std::vector<std::string>& warnings) {
  return read_engine_options(Env::process(), warnings);
}

}  // namespace xoe

#include "train/environment.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/machine.h"
#include "base/text.h"
#include "manners/version.h"

namespace xoe::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // of a file of /proc
// Beside Xoe's own.
constexpr std::array kVariables = {"CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "LD_PRELOAD"};
// Secrets, and what is true of rank 0 alone or of this job alone.
constexpr std::array kLeftOut = {"XOE_CROSS_RANK", "XOE_JOB",    "XOE_KEY_FILE", "XOE_LOCAL_RANK",
                                 "XOE_RANK",       "XOE_SECRET", "XOE_STORE"};

std::string now_text() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

Json command_line() {
  Json words = {"xoe", "train"};
  const std::string text = read_start("/proc/self/cmdline", kMostBytes).value_or("");
  const auto given = split_text(text, '\0');
  // The first is the program, and behind the last is a 0.
  for (std::size_t i = 1; i + 1 < given.size(); ++i) words.push_back(given[i]);
  return words;
}

std::string processor() {
  const std::string text = read_start("/proc/cpuinfo", kMostBytes).value_or("");
  for (const std::string& line : split_text(text, '\n'))
    if (line.starts_with("model name")) return std::string(trimmed(line.substr(line.find(':') + 1)));
  return {};
}

Json variables(const Env& env) {
  Json found = Json::object();
  for (const auto& [name, value] : env.all()) {
    const bool ours = name.starts_with("XOE_") && std::find(kLeftOut.begin(), kLeftOut.end(), name) == kLeftOut.end();
    if (ours || std::find(kVariables.begin(), kVariables.end(), name) != kVariables.end()) found[name] = value;
  }
  return found;
}

Json options_json(const TrainOptions& options) {
  Json json = {{"optimizer", optimizer_name(options.optimizer)},
               {"learning_rate", options.lr},
               {"lr_batch", options.lr_batch},
               {"lr_warmup_epochs", options.lr_warmup_epochs}};
  if (has_momentum(options.optimizer)) json["momentum"] = options.momentum;
  json["weight_decay"] = options.weight_decay.value_or(0);
  json["label_smoothing"] = options.label_smoothing;
  json["clip_norm"] = options.clip_norm;
  json["ema"] = options.ema;
  json["precision"] = precision_name(options.precision);
  if (!options.weights.empty()) json["weights"] = options.weights;
  if (options.new_head) json["new_head"] = true;
  json["sync_batchnorm"] = options.sync_batchnorm;
  json["checkpoint_activations"] = options.checkpoint_activations;
  json["seed"] = options.seed;
  if (options.epochs > 0) json["epochs"] = options.epochs;
  json["bucket_mib"] = options.bucket_mib;
  return json;
}

}  // namespace

std::string environment_json(const TrainOptions& options, const Env& env, std::string_view libtorch_version) {
  utsname system = {};
  ::uname(&system);
  const Json json = {{"started", now_text()},
                     {"host", host_name("unknown")},
                     {"command", command_line()},
                     {"xoe", manners::version()},
                     {"libtorch", libtorch_version},
                     {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
                     {"processor", processor()},
                     {"processors", std::thread::hardware_concurrency()},
                     {"memory", human_bytes(read_kilobytes("/proc/meminfo", "MemTotal"))},
                     {"variables", variables(env)},
                     {"options", options_json(options)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace xoe::train

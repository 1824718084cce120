#include "train/trainer/environment.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/base/machine.h"
#include "core/base/text.h"
#include "core/command_line/machine_facts.h"
#include "core/describe/option_list.h"
#include "train/trainer/option_fields.h"

namespace xoe::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // of a file of /proc
// Beside Xoe's own.
constexpr std::array kVariables = {"CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "LD_PRELOAD"};
// Secrets, and what is true of rank 0 alone or of this job alone.
constexpr std::array kLeftOut = {"XOE_CROSS_RANK", "XOE_JOB",    "XOE_KEY_FILE", "XOE_LOCAL_RANK",
                                 "XOE_RANK",       "XOE_SECRET", "XOE_STORE"};

Json command_line() {
  Json words = {"xoe", "train"};
  const std::string text = read_start("/proc/self/cmdline", kMostBytes).value_or("");
  const auto given = split_text(text, '\0');
  // The first is the program, and behind the last is a 0.
  for (std::size_t i = 1; i + 1 < given.size(); ++i) words.push_back(given[i]);
  return words;
}

Json variables(const Env& env) {
  Json found = Json::object();
  for (const auto& [name, value] : env.all()) {
    const bool ours = name.starts_with("XOE_") && std::find(kLeftOut.begin(), kLeftOut.end(), name) == kLeftOut.end();
    if (ours || std::find(kVariables.begin(), kVariables.end(), name) != kVariables.end()) found[name] = value;
  }
  return found;
}

}  // namespace

Json options_json(const TrainOptions& options) {
  Json json = describe::values_json(options);
  if (!has_momentum(options.optimizer)) json.erase("momentum");
  return json;
}

std::string environment_json(const TrainOptions& options, const Env& env, std::string_view libtorch_version) {
  const command_line::MachineFacts machine = command_line::machine_facts();
  const Json json = {{"started", machine.started},      {"host", machine.host},
                     {"command", command_line()},       {"xoe", machine.version},
                     {"libtorch", libtorch_version},    {"system", machine.system},
                     {"processor", machine.processor},  {"processors", machine.processors},
                     {"memory", machine.memory},        {"variables", variables(env)},
                     {"options", options_json(options)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace xoe::train

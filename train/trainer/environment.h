// What a run ran on, and how it was started.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/base/env.h"
#include "train/trainer/options.h"

namespace xoe::train {

// All options that decide about the result.
nlohmann::ordered_json options_json(const TrainOptions& options);

// One JSON object: when, where, versions, command line, all options that decide about the result, and the variables
// that matter. Nothing that is secret.
std::string environment_json(const TrainOptions& options, const Env& env, std::string_view libtorch_version);

}  // namespace xoe::train

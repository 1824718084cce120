// What a run ran on, and how it was started.
#pragma once

#include <string>
#include <string_view>

#include "core/base/env.h"
#include "train/trainer/options.h"

namespace xoe::train {

// One JSON object: when, where, versions, command line, all options that decide about the result, and the variables
// that matter. Nothing that is secret.
std::string environment_json(const TrainOptions& options, const Env& env, std::string_view libtorch_version);

}  // namespace xoe::train

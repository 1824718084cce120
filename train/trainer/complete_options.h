// Options with their defaults, checked.
#pragma once

#include "train/trainer/options.h"
#include "xoe/status.h"

namespace xoe::train {

// Sets defaults (rates, steps for synthetic data) and checks the options: `invalid_argument` names the option. Does not
// look at the data.
Result<TrainOptions> complete_options(TrainOptions options);

}  // namespace xoe::train

// The page of `xoe bench train`.
#pragma once

#include <string>
#include <vector>

#include "measure/cli/train_result.h"
#include "measure/pages/timeline_figure.h"

namespace xoe::bench {

// timeline: of the traced run; null where there is none.
std::string train_page(const TrainResult& result, const pages::Timeline* timeline);

// The parts of a mean step.
std::vector<pages::Share> step_shares(const TrainResult& result);

}  // namespace xoe::bench

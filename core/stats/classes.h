// What AUROC and ROC curves need of their input.
#pragma once

#include <cstdint>
#include <span>

#include "xoe/status.h"

namespace xoe::stats {

// `invalid_argument`: spans of different lengths, a score that is NaN, fewer than two of either class.
Status check_classes(std::span<const double> scores, std::span<const std::uint8_t> positive);

}  // namespace xoe::stats

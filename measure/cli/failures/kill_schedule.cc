#include "measure/cli/failures/kill_schedule.h"

#include <cmath>

namespace xoe::bench {

KillSchedule::KillSchedule(double mean_seconds, int ranks, std::uint64_t seed)
    : mean_seconds_(mean_seconds), ranks_(ranks), random_(seed) {}

Kill KillSchedule::next() {
  // Not a distribution of the standard library, whose numbers differ between implementations.
  const double share = static_cast<double>((random_() >> 11) + 1) * 0x1p-53;  // above 0, at most 1
  at_ -= mean_seconds_ * std::log(share);
  return {.seconds = at_, .rank = static_cast<int>(random_() % static_cast<std::uint64_t>(ranks_))};
}

}  // namespace xoe::bench

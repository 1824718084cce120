// One seed: a job, what happens to it, and whether it did what is promised.
#pragma once

#include <cstdint>
#include <set>

#include "core/testing/sim/runner.h"

namespace xoe::launch::sim_tests {

sim::Outcome run_seed(std::uint64_t seed, const std::set<std::size_t>& without);

}  // namespace xoe::launch::sim_tests

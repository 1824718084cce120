// Reads counters in Prometheus' text format.
#pragma once

#include <cstdint>
#include <string_view>

namespace xoe::bench {

// The sum of the samples of `series` whose labels contain `label`, such as `kind="allreduce"`; 0: there are none.
std::uint64_t counter_of(std::string_view metrics, std::string_view series, std::string_view label);

}  // namespace xoe::bench

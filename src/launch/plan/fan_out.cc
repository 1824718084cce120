#include "launch/plan/fan_out.h"

#include <algorithm>

namespace xoe::launch {

std::vector<std::optional<std::size_t>> plan_fan_out(std::size_t hosts, std::size_t fan_out) {
  std::vector<std::optional<std::size_t>> relays(hosts);
  if (fan_out == 0) return relays;
  std::size_t before = 0;                        // the first host of the level before
  std::size_t level = std::min(hosts, fan_out);  // and of this one
  while (level < hosts) {
    const std::size_t above = level - before;
    const std::size_t here = std::min(hosts - level, above * fan_out);
    for (std::size_t i = 0; i < here; ++i) relays[level + i] = before + i * above / here;
    before = level;
    level += here;
  }
  return relays;
}

}  // namespace xoe::launch

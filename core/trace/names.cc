#include "core/trace/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/base/text.h"

namespace xoe::trace {
namespace {

constexpr std::array kLanes = {kComputeLane, kInputLane, kPackLane, kReduceLane, kUnpackLane, kWorldLane};
constexpr std::string_view kWaitedForOne = "waited for rank ";
constexpr std::string_view kWaitedForSome = "waited for ranks ";

}  // namespace

int lane_order(std::string_view lane) noexcept {
  const auto* const found = std::find(kLanes.begin(), kLanes.end(), lane);
  return found == kLanes.end() ? 0 : static_cast<int>(found - kLanes.begin()) + 1;
}

bool is_communication(std::string_view lane) noexcept { return lane == kReduceLane || lane.starts_with("allreduce"); }

bool is_input(std::string_view lane) noexcept { return lane == kInputLane || lane == "input wait"; }

bool is_waiting(std::string_view lane) noexcept { return lane == kNegotiate || lane == "wait for peers"; }

std::string waited_for_text(std::span<const int> ranks) {
  if (ranks.empty()) return {};
  return fmt::format("{}{}", ranks.size() == 1 ? kWaitedForOne : kWaitedForSome, fmt::join(ranks, ", "));
}

std::vector<int> ranks_waited_for(std::string_view text) {
  for (const std::string_view start : {kWaitedForSome, kWaitedForOne}) {
    if (!text.starts_with(start)) continue;
    std::vector<int> ranks;
    for (const std::string& word : split_text(text.substr(start.size()), ',')) {
      const auto rank = parse_integer(std::string_view(word).substr(word.starts_with(' ') ? 1 : 0));
      if (!rank || *rank < 0 || *rank > std::numeric_limits<int>::max()) break;
      ranks.push_back(static_cast<int>(*rank));
    }
    return ranks;
  }
  return {};
}

}  // namespace xoe::trace

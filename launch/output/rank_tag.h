// "[3] " before the lines of a rank.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "core/base/error.h"

namespace xoe::launch {

// `color`: one of the rank's own.
inline std::string rank_tag(int rank, bool color) {
  static constexpr std::array kColors{36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91};
  if (!color) return fmt::format("[{}] ", rank);
  return fmt::format("\x1b[{}m[{}]\x1b[0m ", kColors[static_cast<std::size_t>(rank) % kColors.size()], rank);
}

}  // namespace xoe::launch

// What control groups (versions 1 and 2) leave this process.
#pragma once

#include <cstdint>
#include <optional>

#include "doctor/tree.h"

namespace xoe::doctor {

// The tightest limit on the way from this process's group to the topmost one that is visible; nullopt: none.
struct GroupLimits {
  std::optional<double> processors = {};
  std::optional<std::uint64_t> memory = {};
  std::optional<std::uint64_t> memory_used = {};  // in the group that has that limit
  std::optional<std::int64_t> processes = {};
};

GroupLimits read_group_limits(const Tree& tree);

}  // namespace xoe::doctor

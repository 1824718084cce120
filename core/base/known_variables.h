// The environment variables of Xoe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/env.h"

namespace xoe {

// All variables XOE_... that Xoe reads or sets: those of docs/reference/environment.md.
std::span<const std::string_view> known_variables() noexcept;

// A sentence about each variable XOE_... that is set and not known, but whose name is near a known one.
std::vector<std::string> misspelt_variables(const Env& env);

}  // namespace xoe

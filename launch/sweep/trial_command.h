// The command line of one trial, and what it says of its result.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/sweep/space.h"

namespace xoe::launch {

// In each word {NAME} becomes the parameter's value, {trial} the trial's number, {dir} its folder; other braces stay. A
// parameter that no word names is appended as --NAME=VALUE.
std::vector<std::string> command_of(const std::vector<std::string>& command, const Trial& trial, std::size_t number,
                                    const std::string& folder);

// The number behind the last NAME=, NAME: or "NAME": of the text, whose NAME is a word of its own: not a number
// where nan, inf, null or none stands there; nullopt: there is none. Of lines of several ranks only rank 0's count,
// where there are any.
std::optional<double> last_value(std::string_view text, std::string_view name);

}  // namespace xoe::launch

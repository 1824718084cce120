// The version of Xoe.
#pragma once

#include <string_view>

namespace xoe::command_line {

std::string_view version() noexcept;  // "1.2.3"

}  // namespace xoe::command_line

// The version of Xoe.
#pragma once

#include <string_view>

namespace xoe::manners {

std::string_view version() noexcept;  // "1.2.3"

}  // namespace xoe::manners

// Which of this host's addresses other hosts should use.
#pragma once

#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe::bootstrap {

// A number, "10.0.0.5": what choose_address() makes of `interfaces`, and without them the address that this host would
// use to reach `towards` (a number), if there is one.
Result<std::string> own_address(std::string_view interfaces, std::string_view towards = {});

}  // namespace xoe::bootstrap

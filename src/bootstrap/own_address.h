// Which of this host's addresses other hosts should use.
#pragma once

#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe::bootstrap {

// A number, "10.0.0.5". `interfaces`: names or networks in the order of preference ("eth0,10.0.0.0/8"), of which the
// first that is here and up counts; `invalid_argument` with those that are here when none is. Empty: the address that
// this host would use to reach `towards` (a number), or without that the first of an interface that is up and no
// loopback, no container's bridge before all others.
Result<std::string> own_address(std::string_view interfaces, std::string_view towards = {});

}  // namespace xoe::bootstrap

// Random names and secrets.
#pragma once

#include <string>

#include "xoe/status.h"

namespace xoe {

// 32 random hexadecimal digits.
Result<std::string> random_token();

}  // namespace xoe

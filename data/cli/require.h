// Checks of options.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/error.h"

namespace xoe::data {

// "WHAT, not VALUE" unless `good`: require(n > 0, "shards must be 1 or more", n).
inline Status require(bool good, std::string_view what, std::int64_t value) {
  if (good) return {};
  return failure(Code::kInvalidArgument, "{}, not {}", what, value);
}

}  // namespace xoe::data

// What a pipeline does with elements that are broken.
#pragma once

#include <cstdint>

#include "xoe/status.h"

namespace xoe::data {

enum class OnError : std::uint8_t {
  kFail,  // the first bad one ends the iterator with an error that names it
  kSkip,  // bad ones (may_skip()) are left out and counted, up to a limit
};

// Errors that cost one element: broken bytes, a file that is gone, limits; not wrong calls and bugs.
bool may_skip(const Error& error) noexcept;

}  // namespace xoe::data

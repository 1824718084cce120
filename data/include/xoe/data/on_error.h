// What a pipeline does with elements that are broken.
#pragma once

#include <cstdint>

#include "xoe/status.h"

namespace xoe::data {

enum class OnError : std::uint8_t {
  kFail,  // the first bad one ends the iterator with an error that names it
  kSkip,  // bad ones (may_skip()) are left out and counted, up to a limit
};

// A limit of bad elements that is left to OnError: none with kFail, kUsualBad with kSkip. Any other says by itself how
// many are left out before one more is an error, so that kSkip need not be said; 0 is kFail.
inline constexpr std::int64_t kAutoBad = -1;
inline constexpr std::int64_t kUsualBad = 100;

// Makes both options of a pipeline say the same, and max_bad a number.
template <class Options>
void resolve_bad_limit(Options& options) noexcept {
  if (options.max_bad == kAutoBad) options.max_bad = options.on_error == OnError::kSkip ? kUsualBad : 0;
  options.on_error = options.max_bad > 0 ? OnError::kSkip : OnError::kFail;
}

// Errors that cost one element: broken bytes, a file that is gone, limits; not wrong calls and bugs.
bool may_skip(const Error& error) noexcept;

}  // namespace xoe::data

// Errors that name the place where they happened.
#pragma once

#include <string_view>

#include "core/base/error.h"

namespace xoe::data {

// The same error, with "WHERE: " in front of its message.
inline tl::unexpected<Error> failure_in(std::string_view where, const Error& error) {
  return failure(error.code(), "{}: {}", where, error.message());
}

}  // namespace xoe::data

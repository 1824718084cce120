// Builds errors from format strings.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "xoe/status.h"

namespace xoe {

template <class Arg, class... Args>
tl::unexpected<Error> failure(Code code, fmt::format_string<Arg, Args...> format, Arg&& arg, Args&&... args) {
  return failure(code, fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...));
}

// "No such file or directory (errno 2)"
std::string errno_text(int error_number);

}  // namespace xoe

// Forwards the error of a Result or Status to the caller.
#define XOE_TRY(expression)                                               \
  do {                                                                    \
    if (auto xoe_try_status = (expression); !xoe_try_status) [[unlikely]] \
      return ::xoe::failure(std::move(xoe_try_status).error());           \
  } while (false)

#define XOE_TRY_CONCAT_(a, b) a##b
#define XOE_TRY_CONCAT(a, b) XOE_TRY_CONCAT_(a, b)
#define XOE_ASSIGN_IMPL(result, declaration, expression) \
  auto result = (expression);                            \
  if (!result) [[unlikely]]                              \
    return ::xoe::failure(std::move(result).error());    \
  declaration = std::move(*result)
// XOE_ASSIGN(auto file, open_file(path)): declares or assigns the value, or forwards the error.
#define XOE_ASSIGN(declaration, expression) \
  XOE_ASSIGN_IMPL(XOE_TRY_CONCAT(xoe_result_, __LINE__), declaration, expression)

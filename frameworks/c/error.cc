#include "frameworks/c/error.h"

#include <algorithm>
#include <cstring>

namespace xoe::capi {
namespace {

// Of fixed size: reporting that memory is short must not need any.
struct Line {
  char text[4096] = {};
};

thread_local Line line;

}  // namespace

xoe_status report(Code code, std::string_view message) noexcept {
  const std::size_t length = std::min(message.size(), sizeof(line.text) - 1);
  std::memmove(line.text, message.data(), length);
  line.text[length] = '\0';
  return code_of(code);
}

const char* last_error() noexcept { return line.text; }

}  // namespace xoe::capi

extern "C" const char* xoe_last_error(void) { return xoe::capi::last_error(); }

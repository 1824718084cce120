#include "core/base/error.h"

namespace xoe {

std::string errno_text(int error_number) {
  char buffer[256];
  // GNU strerror_r may return a static string instead of filling the buffer.
  const char* text = ::strerror_r(error_number, buffer, sizeof buffer);
  return fmt::format("{} (errno {})", text, error_number);
}

}  // namespace xoe

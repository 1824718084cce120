// The text format of Prometheus.
#pragma once

#include <string>
#include <string_view>

namespace xoe {

// A label's value between its quotes.
inline std::string escape_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace xoe

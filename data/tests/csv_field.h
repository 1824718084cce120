// Writes CSV for tests.
#pragma once

#include <string>
#include <string_view>

namespace xoe::data {

// Appends a field, quoted if necessary.
inline void append_csv_field(std::string& to, std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos && !field.starts_with("\xef\xbb\xbf")) {
    to += field;
    return;
  }
  to += '"';
  for (const char c : field) {
    if (c == '"') to += '"';
    to += c;
  }
  to += '"';
}

}  // namespace xoe::data

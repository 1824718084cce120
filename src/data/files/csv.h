// Comma-separated values as RFC 4180 has them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::data {

// Reads a table row by row. Lines end with CRLF or LF, the last one may end without; a byte-order mark is passed over.
class CsvReader {
 public:
  // The text must stay.
  explicit CsvReader(std::string_view text);

  // The fields of the next row; false at the end. `data_loss`: a quote within an unquoted field, text
  // behind a closing quote, a quote that is not closed, a row of more than 65536 fields or 1 MiB.
  Result<bool> next(std::vector<std::string>& fields);
  std::int64_t line() const noexcept { return line_; }  // where the latest row begins, from 1

 private:
  // Appends one field to `field`; false when the row ends with it.
  Result<bool> read_field(std::string& field);
  Status read_quoted(std::string& field);

  std::string_view rest_;
  std::int64_t line_ = 0;
  std::int64_t next_line_ = 1;
};

// Appends a field, quoted where it must be.
void append_csv_field(std::string& to, std::string_view field);

}  // namespace xoe::data

// Comma-separated values (RFC 4180).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::data {

// Reads a table row by row. Lines end with CRLF or LF, which the last one may lack; a byte-order mark is skipped.
class CsvReader {
 public:
  // The text must outlive the reader.
  explicit CsvReader(std::string_view text);

  // The fields of the next row; false at the end. `data_loss`: a quote within an unquoted field, text
  // behind a closing quote, a quote that is not closed, a row of more than 65536 fields or 1 MiB.
  Result<bool> next(std::vector<std::string>& fields);
  std::int64_t line() const noexcept { return line_; }  // the first line of the latest row, from 1

 private:
  // Appends one field to `field`; false when the row ends with it.
  Result<bool> read_field(std::string& field);
  Status read_quoted(std::string& field);

  std::string_view rest_;
  std::int64_t line_ = 0;
  std::int64_t next_line_ = 1;
};

}  // namespace xoe::data

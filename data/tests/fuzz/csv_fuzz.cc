// CSV: any bytes; rows that are written again are read as they were.
#include "data/files/csv.h"

#include "core/testing/fuzz/memory_file.h"
#include "data/tests/csv_field.h"
#include "target.h"

XOE_FUZZ_TARGET(csv_fuzz) {
  xoe::data::CsvReader reader({reinterpret_cast<const char*>(bytes), size});
  std::vector<std::string> row;
  std::vector<std::string> again;
  for (std::int64_t line = 0;;) {
    const auto more = reader.next(row);
    if (!more || !*more) return 0;
    xoe::require(reader.line() > line);
    line = reader.line();
    std::string written;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) written += ',';
      xoe::data::append_csv_field(written, row[i]);
    }
    written += "\r\n";
    xoe::data::CsvReader rereader(written);
    xoe::require(rereader.next(again).value() && again == row);
    xoe::require(!rereader.next(row).value());
  }
}

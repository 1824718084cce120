#include "measure/cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace xoe::bench {

std::string text_table(const TableRow& head, const std::vector<TableRow>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < head.size(); ++column) {
    widths.push_back(head[column].size());
    for (const TableRow& row : rows) widths.back() = std::max(widths.back(), row[column].size());
  }
  std::string text;
  const auto add = [&](const TableRow& row) {
    std::string line = fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) line += fmt::format("  {:>{}}", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  };
  add(head);
  for (const TableRow& row : rows) add(row);
  return text;
}

}  // namespace xoe::bench

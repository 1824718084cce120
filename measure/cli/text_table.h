// Tables of text.
#pragma once

#include <string>
#include <vector>

namespace xoe::bench {

using TableRow = std::vector<std::string>;

// Columns as wide as they must be: the first flush left, the others flush right. REQUIRES: rows as long as `head`.
std::string text_table(const TableRow& head, const std::vector<TableRow>& rows);

}  // namespace xoe::bench

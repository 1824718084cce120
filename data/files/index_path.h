// Which files are indexes of record files and archives, by their names.
#pragma once

#include <string>
#include <string_view>

namespace xoe::data {

inline constexpr std::string_view kIndexSuffix = ".xoeindex";

std::string index_path(const std::string& path);  // "data/train-3.xoeindex"
bool is_index_path(std::string_view path) noexcept;
// Whether a file is the index that another tool keeps beside record files or archives: DALI's and WebDataset's .idx,
// the .index and .tfindex of others. All are text, which no record file and no archive is.
bool is_foreign_index(const std::string& path);

}  // namespace xoe::data

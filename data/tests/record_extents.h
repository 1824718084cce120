// Plain record files, opened, and where their records lie.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/records/file_index.h"
#include "data/records/record_file.h"

namespace xoe::data {

inline std::shared_ptr<const OpenFile> open_file(const std::string& path) {
  return std::make_shared<const OpenFile>(OpenFile::open(path).value());
}

inline std::vector<RecordExtent> extents_of(const std::string& path) {
  return make_index(open_file(path), {.compression = Compression::kNone}).value().records;
}

}  // namespace xoe::data

#include "tools/data/verbs/record_files.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "data/files/listing.h"
#include "data/records/file_index.h"

namespace xoe::tools {
namespace {

bool is_record_name(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kBeginnings = {"train-", "validation-", "val-", "test-"};
  if (data::is_index_path(name) || data::has_extension(name, ".tar")) return false;
  return name.find(".tfrecord") != std::string_view::npos ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(), [name](auto begin) { return name.starts_with(begin); });
}

}  // namespace

Result<std::vector<std::string>> record_files(const std::string& path) {
  if (!data::is_directory(path)) return std::vector{path};
  XOE_ASSIGN(const data::Listing listing, data::list_directory(path));
  std::vector<std::string> files;
  for (const std::string& name : listing.files)
    if (is_record_name(name)) files.push_back(path + "/" + name);
  if (files.empty()) return failure(Code::kUnavailable, "{}: no train-*, validation-* or *.tfrecord file", path);
  return files;
}

}  // namespace xoe::tools

#include "data/files/index_path.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "data/files/byte_source.h"

namespace xoe::data {
namespace {

constexpr std::size_t kHead = 4096;  // bytes by which text is told from other content

}  // namespace

std::string index_path(const std::string& path) { return path + std::string(kIndexSuffix); }
bool is_index_path(std::string_view path) noexcept { return path.ends_with(kIndexSuffix); }

bool is_foreign_index(const std::string& path) {
  static constexpr std::string_view kForeign[] = {".idx", ".index", ".tfindex"};
  if (std::ranges::none_of(kForeign, [&](std::string_view suffix) { return path.ends_with(suffix); })) return false;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // a pipe is not opened
  const auto file = OpenFile::open(path);
  const auto head = file ? read_head(*file, kHead) : Result<std::string>(failure(file.error()));
  const auto is_text = [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; };
  return head && std::ranges::all_of(*head, is_text);
}

}  // namespace xoe::data

#include "data/files/listing.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "data/failure_in.h"
#include "data/files/byte_source.h"
#include "data/files/index_path.h"

namespace xoe::data {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20;

Result<std::vector<std::string>> read_all_lines(const std::string& path) {
  XOE_ASSIGN(const std::string content, read_whole(path, kMaxTextBytes));
  std::vector<std::string> lines;
  std::string_view rest = content;
  if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
  }
  return lines;
}

}  // namespace

Result<Listing> list_directory(const std::string& path) {
  Listing listing;
  std::error_code error;
  std::filesystem::directory_iterator entries(path, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    std::string name = entries->path().filename().string();
    std::error_code ignored;
    if (name.starts_with('.'))
      listing.hidden.push_back(std::move(name));
    else if (entries->is_directory(ignored))
      listing.folders.push_back(std::move(name));
    else
      listing.files.push_back(std::move(name));
  }
  if (error) return failure(Code::kUnavailable, "{}: cannot list the directory: {}", path, error.message());
  std::sort(listing.files.begin(), listing.files.end());
  std::sort(listing.folders.begin(), listing.folders.end());
  std::sort(listing.hidden.begin(), listing.hidden.end());
  return listing;
}

Result<std::vector<std::string>> match_files(const std::string& directory, const std::string& pattern) {
  std::error_code error;
  std::vector<std::string> paths;
  std::filesystem::directory_iterator entries(directory, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (matches(entries->path().filename().string(), pattern) && !is_index_path(entries->path().native()) &&
        !is_foreign_index(entries->path().native()))
      paths.push_back(entries->path().string());
  }
  if (error) return failure(Code::kUnavailable, "{}: cannot list the directory: {}", directory, error.message());
  if (paths.empty()) return failure(Code::kUnavailable, "{}: no file matches {}", directory, pattern);
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool matches(const std::string& name, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
}

std::string name_below(const std::string& directory, const std::string& path) {
  std::size_t at = directory.size();
  while (at > 0 && directory[at - 1] == '/') --at;
  if (path.size() <= at || path[at] != '/' || path.compare(0, at, directory, 0, at) != 0)
    return path.substr(path.rfind('/') + 1);
  return path.substr(std::min(path.find_first_not_of('/', at), path.size()));
}

Status read_whole(const std::string& path, std::size_t limit, std::string& buffer) {
  XOE_ASSIGN(const OpenFile file, OpenFile::open(path));
  if (file.bytes > limit) return failure(Code::kDataLoss, "{}: {} bytes; at most {} are read", path, file.bytes, limit);
  buffer.resize(file.bytes);
  if (auto got = file.read_at(0, buffer.data(), buffer.size()); !got) return failure_in(path, got.error());
  return {};
}

Result<std::string> read_whole(const std::string& path, std::size_t limit) {
  std::string content;
  XOE_TRY(read_whole(path, limit, content));
  return content;
}

Result<std::vector<std::string>> read_lines(const std::string& path) {
  XOE_ASSIGN(std::vector<std::string> lines, read_all_lines(path));
  std::erase(lines, "");
  return lines;
}

Result<std::vector<std::string>> read_names(const std::string& path) {
  XOE_ASSIGN(std::vector<std::string> names, read_all_lines(path));
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (const auto empty = std::ranges::find(names, ""); empty != names.end())
    return failure(Code::kDataLoss, "{}: line {} is empty; line i names label i, so each needs a name", path,
                   empty - names.begin() + 1);
  return names;
}

bool has_extension(std::string_view name, std::string_view extension) noexcept {
  if (name.size() <= extension.size()) return false;
  const std::string_view end = name.substr(name.size() - extension.size());
  return std::equal(end.begin(), end.end(), extension.begin(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  });
}

bool is_archive_name(std::string_view name) noexcept {
  return has_extension(name, ".tar") || has_extension(name, ".tar.gz") || has_extension(name, ".tgz");
}

bool is_record_name(std::string_view name) noexcept {
  return name.find(".tfrec") != std::string_view::npos || name.ends_with(".record") || name.ends_with(".records") ||
         name.find(".record-") != std::string_view::npos || name.find(".records-") != std::string_view::npos;
}

}  // namespace xoe::data

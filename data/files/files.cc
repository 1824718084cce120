#include "xoe/data/files.h"

#include <fnmatch.h>
#include <glob.h>

#include <algorithm>

#include "core/base/error.h"
#include "data/files/index_path.h"
#include "data/files/listing.h"
#include "data/files/missing.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace {

class Glob {
 public:
  Glob() = default;
  Glob(const Glob&) = delete;
  Glob& operator=(const Glob&) = delete;
  ~Glob() { ::globfree(&found_); }

  Status run(const std::string& pattern) {
    const int result = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_BRACE | GLOB_ERR, nullptr, &found_);
    if (result == 0 || result == GLOB_NOMATCH) return {};
    if (result == GLOB_NOSPACE) return failure(Code::kResourceExhausted, "{}: no memory to list its files", pattern);
    return failure(Code::kUnavailable, "{}: a directory on its way cannot be read: {}", pattern, errno_text(errno));
  }
  std::size_t size() const { return found_.gl_pathc; }
  const char* path(std::size_t i) const { return found_.gl_pathv[i]; }

 private:
  glob_t found_ = {};
};

// Whether glob() would give a path for a pattern: fnmatch() writes {a,b} as @(a|b).
bool glob_matches(const std::string& pattern, const std::string& path) {
  std::string extended;
  int depth = 0;
  for (const char c : pattern) {
    if (c == '{') ++depth;
    if (c == '{') {
      extended += "@(";
    } else if (c == '}' && depth > 0) {
      extended += ')';
      --depth;
    } else {
      extended += c == ',' && depth > 0 ? '|' : c;
    }
  }
  return ::fnmatch(extended.c_str(), path.c_str(), FNM_PATHNAME | FNM_PERIOD | FNM_EXTMATCH) == 0;
}

Status add_matches(const std::string& pattern, std::vector<std::string>& paths) {
  Glob glob;
  XOE_TRY(glob.run(pattern));
  const std::size_t before = paths.size();
  const bool any_name = pattern == "*" || pattern.ends_with("/*");
  for (std::size_t i = 0; i < glob.size(); ++i) {
    const std::string path = glob.path(i);
    const bool index = is_index_path(path) || is_foreign_index(path);
    if ((index && pattern != path) || (any_name && is_directory(path))) continue;
    paths.push_back(path);
  }
  if (paths.size() == before) return failure(Code::kUnavailable, "{}: no file matches", pattern);
  return {};
}

}  // namespace

Result<std::vector<std::string>> match_paths(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return failure(Code::kInvalidArgument, "no pattern of files");
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) XOE_TRY(add_matches(pattern, paths));
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

Result<std::vector<std::string>> match_files(const std::vector<std::string>& patterns, const MatchOptions& options) {
  XOE_ASSIGN(std::vector<std::string> paths, match_paths(patterns));
  MissingData missing(options.allow_missing, options.left_out);
  const auto wanted = [&patterns](const std::string& path) {
    return std::ranges::any_of(patterns, [&](const std::string& pattern) { return glob_matches(pattern, path); });
  };
  find_absent_shards(paths, wanted, missing);
  (void)keep_files(paths, 1, missing);
  XOE_TRY(missing.check(patterns.front()));
  if (paths.empty()) return failure(Code::kUnavailable, "{}: nothing that matches is a file", patterns.front());
  return paths;
}

Result<StagePtr<std::string>> files(const std::vector<std::string>& patterns, const MatchOptions& options) {
  XOE_ASSIGN(auto paths, match_files(patterns, options));
  return from_vector(std::move(paths));
}

}  // namespace xoe::data

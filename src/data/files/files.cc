#include "xoe/data/files.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/error.h"
#include "data/records/file_index.h"
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

bool is_regular(const char* path) {
  struct stat facts = {};
  return ::stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

Status add_matches(const std::string& pattern, std::vector<std::string>& paths) {
  Glob glob;
  XOE_TRY(glob.run(pattern));
  const std::size_t before = paths.size();
  for (std::size_t i = 0; i < glob.size(); ++i) {
    const std::string path = glob.path(i);
    if (is_regular(path.c_str()) && (pattern == path || (!is_index_path(path) && !is_foreign_index(path))))
      paths.push_back(path);
  }
  if (paths.size() == before) return failure(Code::kUnavailable, "{}: no file matches", pattern);
  return {};
}

}  // namespace

Result<std::vector<std::string>> match_files(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return failure(Code::kInvalidArgument, "no pattern of files");
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) XOE_TRY(add_matches(pattern, paths));
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

Result<StagePtr<std::string>> files(const std::vector<std::string>& patterns) {
  XOE_ASSIGN(auto paths, match_files(patterns));
  return from_vector(std::move(paths));
}

}  // namespace xoe::data

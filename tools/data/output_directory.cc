#include "tools/data/output_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"

namespace xoe::data {

namespace fs = std::filesystem;

namespace {

constexpr int kMostAttempts = 10'000;

// Invalid with errno EWOULDBLOCK: somebody is writing there. Locks go with their process, however it ends.
Fd lock_directory(const fs::path& path) {
  Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid() && ::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) return Fd();
  return directory;
}

// What killed processes left. Where there are no locks, it stays.
void remove_stale(const fs::path& parent, const std::string& begin) {
  std::error_code error;
  std::vector<fs::path> stale;
  fs::directory_iterator entries(parent, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error))
    if (entries->path().filename().native().starts_with(begin)) stale.push_back(entries->path());
  for (const fs::path& path : stale)
    if (const Fd directory = lock_directory(path); directory.valid()) fs::remove_all(path, error);
}

// Whether what was just made is ours: another process may have taken it for stale before it was locked.
bool is_ours(const Fd& directory, int error_number) {
  if (!directory.valid()) return error_number != EWOULDBLOCK && error_number != ENOENT;
  struct stat facts = {};
  return ::fstat(directory.get(), &facts) == 0 && facts.st_nlink > 0;
}

}  // namespace

Result<OutputDirectory> OutputDirectory::create(const std::string& place) {
  std::error_code error;
  const fs::path there = (fs::absolute(place, error) / "").lexically_normal().parent_path();
  if (fs::exists(there, error) && (!fs::is_directory(there, error) || !fs::is_empty(there, error)))
    return failure(Code::kInvalidArgument, "{}: something is there already; choose another directory", place);
  const fs::path parent = there.parent_path();
  const std::string begin = fmt::format(".{}.unfinished-", there.filename().string());
  if (fs::create_directories(parent, error); error)
    return failure(Code::kUnavailable, "{}: cannot make the directory: {}", parent.string(), error.message());
  remove_stale(parent, begin);
  // Others of this process, or of another host with the same number, may be writing the same.
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const fs::path path = parent / fmt::format("{}{}-{}", begin, ::getpid(), attempt);
    if (::mkdir(path.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      return failure(Code::kUnavailable, "{}: cannot make the directory: {}", path.string(), errno_text(errno));
    }
    Fd lock = lock_directory(path);
    if (!is_ours(lock, errno)) continue;
    OutputDirectory made(there.string(), path.string(), std::move(lock));
    if (::mkdir(made.path_.c_str(), 0777) == 0) return made;
    return failure(Code::kUnavailable, "{}: cannot make the directory: {}", made.path_, errno_text(errno));
  }
  return failure(Code::kUnavailable, "{}: {} others are being written beside it", place, kMostAttempts);
}

// The content is one level down, so that whoever writes it may lock it, too.
OutputDirectory::OutputDirectory(std::string place, std::string around, Fd lock)
    : place_(std::move(place)), around_(std::move(around)), path_(around_ + "/content"), lock_(std::move(lock)) {}

OutputDirectory::OutputDirectory(OutputDirectory&& other) noexcept
    : place_(std::move(other.place_)),
      around_(std::exchange(other.around_, {})),
      path_(std::move(other.path_)),
      lock_(std::move(other.lock_)) {}

OutputDirectory::~OutputDirectory() {
  std::error_code ignored;
  if (!around_.empty()) fs::remove_all(around_, ignored);
}

Status OutputDirectory::finish() {
  const Fd directory(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || ::syncfs(directory.get()) != 0)
    return failure(Code::kUnavailable, "{}: cannot flush: {}", place_, errno_text(errno));
  // Over an empty directory, too.
  if (::rename(path_.c_str(), place_.c_str()) != 0)
    return failure(Code::kUnavailable, "{}: cannot write: {}", place_, errno_text(errno));
  ::rmdir(around_.c_str());
  around_.clear();
  lock_ = Fd();
  return {};
}

}  // namespace xoe::data

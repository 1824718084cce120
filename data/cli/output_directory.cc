#include "data/cli/output_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/utf8.h"

namespace xoe::data {

namespace {

constexpr int kMaxAttempts = 10'000;

// Invalid with errno EWOULDBLOCK: another process is writing there. A lock ends with its process, however that ends.
Fd lock_directory(const std::filesystem::path& path) {
  Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid() && ::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) return Fd();
  return directory;
}

// Removes directories that killed processes left. Without locks they stay.
void remove_stale(const std::filesystem::path& parent, const std::string& begin) {
  std::error_code error;
  std::vector<std::filesystem::path> stale;
  std::filesystem::directory_iterator entries(parent, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error))
    if (entries->path().filename().native().starts_with(begin)) stale.push_back(entries->path());
  for (const std::filesystem::path& path : stale)
    if (const Fd directory = lock_directory(path); directory.valid()) std::filesystem::remove_all(path, error);
}

// Whether the new directory is still ours: another process may have removed it as stale before it was locked.
bool is_ours(const Fd& directory, int error_number) {
  if (!directory.valid()) return error_number != EWOULDBLOCK && error_number != ENOENT;
  struct stat facts = {};
  return ::fstat(directory.get(), &facts) == 0 && facts.st_nlink > 0;
}

}  // namespace

Result<OutputDirectory> OutputDirectory::create(const std::string& target) {
  std::error_code error;
  const std::filesystem::path there = (std::filesystem::absolute(target, error) / "").lexically_normal().parent_path();
  const bool exists = std::filesystem::exists(there, error);
  if (error) return failure(Code::kUnavailable, "{}: cannot make the directory: {}", target, error.message());
  if (exists && (!std::filesystem::is_directory(there, error) || !std::filesystem::is_empty(there, error)))
    return failure(Code::kInvalidArgument, "{}: it exists and is not an empty directory; choose another directory",
                   target);
  const std::filesystem::path parent = there.parent_path();
  // A name may have 255 bytes, the hidden one with its numbers, too.
  constexpr std::size_t kMostOfName = kMostBytesOfName - std::string_view("..unfinished-2147483647-9999").size();
  const std::string name = there.filename().string();
  const std::string begin = fmt::format(".{}.unfinished-", shortened_utf8(name, kMostOfName));
  if (std::filesystem::create_directories(parent, error); error)
    return failure(Code::kUnavailable, "{}: cannot make the directory: {}", parent.string(), error.message());
  remove_stale(parent, begin);
  // Another thread, or a process of another host with the same number, may be writing to the same target.
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const std::filesystem::path path = parent / fmt::format("{}{}-{}", begin, ::getpid(), attempt);
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
  return failure(Code::kUnavailable, "{}: {} other writers are using directories beside it", target, kMaxAttempts);
}

// The content is one level down, so that its writer may lock it, too.
OutputDirectory::OutputDirectory(std::string target, std::string parent, Fd lock)
    : target_(std::move(target)), parent_(std::move(parent)), path_(parent_ + "/content"), lock_(std::move(lock)) {}

OutputDirectory::OutputDirectory(OutputDirectory&& other) noexcept
    : target_(std::move(other.target_)),
      parent_(std::exchange(other.parent_, {})),
      path_(std::move(other.path_)),
      lock_(std::move(other.lock_)) {}

OutputDirectory::~OutputDirectory() {
  std::error_code ignored;
  if (!parent_.empty()) std::filesystem::remove_all(parent_, ignored);
}

Status OutputDirectory::finish() {
  const Fd directory(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || ::syncfs(directory.get()) != 0)
    return failure(Code::kUnavailable, "{}: cannot flush: {}", target_, errno_text(errno));
  // Also replaces an empty directory.
  if (::rename(path_.c_str(), target_.c_str()) != 0)
    return failure(Code::kUnavailable, "{}: cannot write: {}", target_, errno_text(errno));
  ::rmdir(parent_.c_str());
  parent_.clear();
  lock_ = Fd();
  return {};
}

}  // namespace xoe::data

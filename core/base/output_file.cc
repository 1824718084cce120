#include "core/base/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "core/base/error.h"
#include "core/base/random_token.h"
#include "core/base/utf8.h"
#include "core/base/write_all.h"

namespace xoe {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;
constexpr int kMostAttempts = 3;

// A rename survives a power cut only when its folder was flushed; file systems that cannot do that fail, which is no
// error.
void flush_folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const Fd folder(
      ::open(slash == std::string::npos ? "." : path.substr(0, slash + 1).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) ::fsync(folder.get());
}

// Hidden, so that no pattern for the finished files takes it for one, and drawn at random: numbers of processes and
// names of hosts may come twice where a directory is shared.
Result<std::string> temporary_name(const std::string& path) {
  XOE_ASSIGN(const std::string token, random_token());
  const auto slash = path.rfind('/') + 1;
  constexpr std::size_t kMostOfName = kMostBytesOfName - std::string_view("..unfinished-0123456789abcdef").size();
  const std::string_view name = shortened_utf8(std::string_view(path).substr(slash), kMostOfName);
  return fmt::format("{}.{}.unfinished-{}", path.substr(0, slash), name, token.substr(0, 16));
}

// Locks the new file against remove_unfinished(). False: that function has removed it already.
bool keep(const Fd& fd) {
  struct stat facts = {};
  ::flock(fd.get(), LOCK_EX | LOCK_NB);
  return ::fstat(fd.get(), &facts) != 0 || facts.st_nlink > 0;
}

// For file systems that do not know RENAME_NOREPLACE, NFS among them: a link never replaces a file either. Sets errno.
bool create_without_the_flag(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return true;
  const int error = errno;
  struct stat status = {};
  // A request that NFS sent twice finds its own link.
  if (error == EEXIST && ::stat(from.c_str(), &status) == 0 && status.st_nlink > 1) return true;
  errno = error;
  if (error != EPERM && error != ENOSYS && error != EOPNOTSUPP) return false;
  // No links either: an empty file reserves the name.
  if (!Fd(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)).valid()) return false;
  if (::rename(from.c_str(), to.c_str()) == 0) return true;
  const int why = errno;
  ::unlink(to.c_str());
  errno = why;
  return false;
}

}  // namespace

bool is_name_too_long(const std::string& path) {
  struct stat facts = {};
  return ::lstat(path.c_str(), &facts) != 0 && errno == ENAMETOOLONG;
}

void remove_unfinished(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
}

OutputFile::OutputFile(std::string path, std::string temporary, Fd fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)),
      buffer_(std::move(other.buffer_)) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<OutputFile> OutputFile::create(std::string path) {
  // The temporary name is shorter, so that only the last step would notice it.
  if (is_name_too_long(path)) return cannot_write(path, ENAMETOOLONG);
  for (int attempt = 0;; ++attempt) {
    XOE_ASSIGN(std::string temporary, temporary_name(path));
    Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (fd.valid() && keep(fd)) return OutputFile(std::move(path), std::move(temporary), std::move(fd));
    if ((!fd.valid() && errno != EEXIST) || attempt == kMostAttempts) return cannot_write(path, errno);
  }
}

Status OutputFile::flush() {
  Status written = write_all(fd_.get(), path_, buffer_);
  buffer_.clear();
  return written;
}

Status OutputFile::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBuffer) XOE_TRY(flush());
  if (bytes.size() >= kBuffer) return write_all(fd_.get(), path_, bytes);
  buffer_ += bytes;
  return {};
}

Status OutputFile::complete() {
  XOE_TRY(flush());
  if (::fsync(fd_.get()) != 0) return cannot_write(path_, errno);
  fd_ = Fd();
  return {};
}

Status OutputFile::finish() {
  if (fd_.valid()) XOE_TRY(complete());
  XOE_TRY(finish_unflushed());
  flush_folder_of(path_);
  return {};
}

Result<bool> OutputFile::finish_new() {
  if (fd_.valid()) XOE_TRY(complete());
  bool created = ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0;
  if (!created && errno == EINVAL) created = create_without_the_flag(temporary_, path_);
  const int error = errno;
  ::unlink(temporary_.c_str());
  temporary_.clear();
  if (!created && error != EEXIST) return cannot_write(path_, error);
  flush_folder_of(path_);
  return created;
}

Status OutputFile::finish_unflushed() {
  if (fd_.valid()) XOE_TRY(flush());
  fd_ = Fd();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return cannot_write(path_, errno);
  temporary_.clear();
  return {};
}

Result<bool> create_private_file(const std::string& path, std::string_view content) {
  XOE_ASSIGN(const std::string temporary, temporary_name(path));
  const Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return cannot_write(path, errno);
  Status written = write_all(fd.get(), path, content);
  if (written && ::fsync(fd.get()) != 0) written = cannot_write(path, errno);
  // Unlike a rename, a link never replaces an existing file.
  const bool created = written && ::link(temporary.c_str(), path.c_str()) == 0;
  const int error = errno;
  ::unlink(temporary.c_str());
  if (!written) return failure(written.error());
  if (!created && error != EEXIST) return cannot_write(path, error);
  return created;
}

Status write_file(const std::string& path, std::string_view content) {
  XOE_ASSIGN(OutputFile file, OutputFile::create(path));
  XOE_TRY(file.write(content));
  return file.finish();
}

}  // namespace xoe

#include "train/files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"

namespace xoe::train {
namespace {

Error write_error(std::string_view what, const std::string& path, int reason) {
  const bool full = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
  return {full ? Code::kResourceExhausted : Code::kUnavailable,
          fmt::format("cannot {} {}: {}{}", what, path, errno_text(reason),
                      full ? "; free some space there or choose another folder" : "")};
}

// 0, or the errno of the failure.
int write_all(int fd, std::string_view data) {
  // Not all at once, so that a signal never finds one endless call.
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  while (!data.empty()) {
    const ssize_t done = ::write(fd, data.data(), std::min(data.size(), kPiece));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    data.remove_prefix(static_cast<std::size_t>(done));
  }
  return 0;
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

}  // namespace

Status write_file(const std::string& path, std::span<const std::string_view> pieces) {
  const std::string temporary = fmt::format("{}.tmp.{}", path, ::getpid());
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return failure(write_error("create", path, errno));
  int reason = 0;
  for (const std::string_view piece : pieces) {
    reason = write_all(fd.get(), piece);
    if (reason != 0) break;
  }
  if (reason == 0 && ::fsync(fd.get()) != 0) reason = errno;
  fd = Fd();
  if (reason == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) reason = errno;
  if (reason != 0) {
    ::unlink(temporary.c_str());
    return failure(write_error("write", path, reason));
  }
  // The rename itself is durable only with its folder; some file systems cannot do this, which is no error.
  const Fd folder(::open(parent_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) ::fsync(folder.get());
  return {};
}

Status write_file(const std::string& path, std::string_view content) {
  return write_file(path, std::span<const std::string_view>(&content, 1));
}

Result<std::string> read_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return failure(Code::kUnavailable, "cannot open {}: {}", path, errno_text(errno));
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return failure(Code::kUnavailable, "cannot read {}: it is no regular file", path);
  }
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t got = ::read(fd.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(Code::kUnavailable, "cannot read {}: {}", path, errno_text(errno));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

Status make_folder(const std::string& path) {
  std::error_code reason;
  std::filesystem::create_directories(path, reason);
  if (reason) return failure(write_error("create the folder", path, reason.value()));
  if (::access(path.c_str(), W_OK | X_OK) != 0) return failure(write_error("write into the folder", path, errno));
  if (!std::filesystem::is_directory(path, reason)) {
    return failure(Code::kUnavailable, "{} is not a folder", path);
  }
  return {};
}

Result<LineFile> LineFile::open(const std::string& path, bool append) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (append ? 0 : O_TRUNC), 0644));
  if (!fd.valid()) return failure(write_error("create", path, errno));
  return LineFile(path, std::move(fd));
}

Status LineFile::write(std::string line) {
  line += '\n';
  const off_t before = ::lseek(fd_.get(), 0, SEEK_END);
  if (const int reason = write_all(fd_.get(), line); reason != 0) {
    // No half line stays behind.
    if (before >= 0 && ::ftruncate(fd_.get(), before) != 0) {
      return failure(write_error("write (its last line is cut off)", path_, reason));
    }
    return failure(write_error("write", path_, reason));
  }
  return {};
}

}  // namespace xoe::train

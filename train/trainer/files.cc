#include "train/trainer/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/write_all.h"

namespace xoe::train {
namespace {

Error write_error(std::string_view what, const std::string& path, int reason) {
  const bool full = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
  return {full ? Code::kResourceExhausted : Code::kUnavailable,
          fmt::format("cannot {} {}: {}{}", what, path, errno_text(reason),
                      full ? "; free some space there or choose another folder" : "")};
}

}  // namespace

std::string normal_path(const std::string& path) {
  if (path.empty()) return {};
  std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  return normal;
}

Result<std::string> read_file(const std::string& path) {
  std::error_code reason;
  if (!std::filesystem::is_regular_file(path, reason))
    return failure(Code::kUnavailable, "cannot read {}: {}", path,
                   reason ? errno_text(reason.value()) : "it is not a regular file");
  auto content = read_start(path, std::string::npos);
  if (!content) return failure(Code::kUnavailable, "cannot read {}: {}", path, errno_text(errno));
  return std::move(*content);
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

Result<GrowingFile> GrowingFile::open(const std::string& path, bool append) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (append ? 0 : O_TRUNC), 0644));
  if (!fd.valid()) return failure(write_error("create", path, errno));
  return GrowingFile(path, std::move(fd));
}

Status GrowingFile::append(std::string_view bytes) {
  const off_t before = ::lseek(fd_.get(), 0, SEEK_END);
  const Status written = write_all(fd_.get(), path_, bytes);
  if (written) return {};
  if (before >= 0 && ::ftruncate(fd_.get(), before) != 0)
    return failure(written.error().code(), "{} (its end is cut off)", written.error().message());
  return written;
}

}  // namespace xoe::train

#include "core/base/write_all.h"

#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"

namespace xoe {

tl::unexpected<Error> cannot_write(const std::string& path, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
  return failure(full ? Code::kResourceExhausted : Code::kUnavailable, "cannot write {}: {}{}", path,
                 errno_text(error_number), full ? "; free some space there or choose another folder" : "");
}

Status write_all(int fd, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return cannot_write(path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

}  // namespace xoe

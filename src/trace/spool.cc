#include "trace/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/write_all.h"

namespace xoe::trace {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

}  // namespace

Result<Spool> Spool::create(const std::string& path) {
  std::string folder = folder_of(path);
  Fd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid()) {  // not supported by every file system
    std::string name = folder + "/.xoe-merge-XXXXXX";
    fd = Fd(::mkostemp(name.data(), O_CLOEXEC));
    if (!fd.valid()) return cannot_write(folder, errno);
    ::unlink(name.c_str());
  }
  return Spool(std::move(fd), std::move(folder));
}

Result<std::uint64_t> Spool::append(std::string_view text) {
  const std::uint64_t offset = size_;
  size_ += text.size();
  buffer_.append(text);
  if (buffer_.size() >= kBuffer) XOE_TRY(finish());
  return offset;
}

Status Spool::finish() {
  Status written = write_all(fd_.get(), folder_, buffer_);
  buffer_.clear();
  return written;
}

Status Spool::read(std::uint64_t offset, std::size_t bytes, std::string& text) const {
  text.resize(bytes);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(fd_.get(), text.data() + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return failure(Code::kUnavailable, "cannot read back from {}: {}", folder_, errno_text(got < 0 ? errno : EIO));
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace xoe::trace

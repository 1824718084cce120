#include "engine/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace xoe::engine {
namespace {

// The last event of the file has no comma after it: it is this one, which says nothing, and closes the file.
constexpr std::string_view kTail = "{\"ph\":\"M\",\"name\":\"end\",\"pid\":0,\"args\":{}}\n]}\n";
constexpr std::string_view kHeaderStart =
    "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"xoe\",\"clock_base_ns\":\"";
constexpr std::string_view kHeaderEnd = "\"},\"traceEvents\":[\n";
constexpr std::size_t kHeaderLimit = 256;

class FileLock {
 public:
  explicit FileLock(int fd) : fd_(fd) {
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() { ::flock(fd_, LOCK_UN); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

// False with errno when not all could be written.
bool write_all(int fd, std::string_view data, off_t offset) {
  while (!data.empty()) {
    const ssize_t done = ::pwrite(fd, data.data(), data.size(), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data.remove_prefix(static_cast<std::size_t>(done));
    offset += done;
  }
  return true;
}

std::string read_at(int fd, off_t offset, std::size_t bytes) {
  std::string data(bytes, '\0');
  const ssize_t got = ::pread(fd, data.data(), bytes, offset);
  data.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return data;
}

// Where the next event belongs: the start of the closing line, or, when a killed rank left half an event, the end of
// the last whole line.
off_t append_offset(int fd, off_t size) {
  const auto tail = static_cast<off_t>(kTail.size());
  if (size >= tail && read_at(fd, size - tail, kTail.size()) == kTail) return size - tail;
  constexpr off_t kWindow = 1 << 16;  // many lines
  const off_t start = size - std::min(size, kWindow);
  const std::string window = read_at(fd, start, static_cast<std::size_t>(size - start));
  if (const auto newline = window.rfind(",\n"); newline != std::string::npos) {
    return start + static_cast<off_t>(newline) + 2;
  }
  const auto header = window.find(kHeaderEnd);
  return header == std::string::npos ? size : start + static_cast<off_t>(header + kHeaderEnd.size());
}

}  // namespace

Result<TraceFile> TraceFile::create(const std::string& path, std::int64_t base_ns) {
  // A new inode: a viewer or a late rank of an earlier run keeps the old file.
  ::unlink(path.c_str());
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.valid()) return failure(Code::kUnavailable, "cannot create the timeline {}: {}", path, errno_text(errno));
  const std::string text = fmt::format("{}{}{}{}", kHeaderStart, base_ns, kHeaderEnd, kTail);
  if (!write_all(fd.get(), text, 0)) {
    const int reason = errno;
    ::unlink(path.c_str());
    return failure(Code::kUnavailable, "cannot write the timeline {}: {}", path, errno_text(reason));
  }
  return TraceFile(path, std::move(fd), base_ns);
}

Result<TraceFile> TraceFile::join(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return failure(Code::kUnavailable, "cannot open the timeline {}: {}", path, errno_text(errno));
  const std::string header = read_at(fd.get(), 0, kHeaderLimit);
  const auto end = header.find(kHeaderEnd);
  std::optional<std::int64_t> base;
  if (header.starts_with(kHeaderStart) && end != std::string::npos) {
    base = parse_integer(std::string_view(header).substr(kHeaderStart.size(), end - kHeaderStart.size()));
  }
  if (!base) return failure(Code::kDataLoss, "{} is not a timeline of Xoe", path);
  return TraceFile(path, std::move(fd), *base);
}

Status TraceFile::append(std::string_view lines) {
  if (lines.empty()) return {};
  const FileLock lock(fd_.get());
  struct stat info = {};
  if (::fstat(fd_.get(), &info) != 0) {
    return failure(Code::kUnavailable, "cannot read the timeline {}: {}", path_, errno_text(errno));
  }
  const off_t offset = append_offset(fd_.get(), info.st_size);
  const auto end = offset + static_cast<off_t>(lines.size() + kTail.size());
  const bool written = write_all(fd_.get(), std::string(lines).append(kTail), offset);
  const int reason = errno;
  if (written) {
    // Only after a repair can more than this be left behind the new end.
    if (end < info.st_size && ::ftruncate(fd_.get(), end) != 0) {
      return failure(Code::kUnavailable, "cannot write the timeline {}: {}", path_, errno_text(errno));
    }
    return {};
  }
  // The old end stood on these very blocks, so that writing it again needs no new space.
  const bool restored =
      write_all(fd_.get(), kTail, offset) && ::ftruncate(fd_.get(), offset + static_cast<off_t>(kTail.size())) == 0;
  return failure(Code::kResourceExhausted, "cannot write the timeline {}: {}; free some space or put it elsewhere{}",
                 path_, errno_text(reason), restored ? "" : " (its end is lost)");
}

}  // namespace xoe::engine

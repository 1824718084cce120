#include "core/trace/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/make_folder.h"
#include "core/base/text.h"
#include "core/trace/text.h"

namespace xoe::trace {
namespace {

// The last event of a file has no comma after it. This empty one closes the file.
constexpr std::string_view kTail = "{\"ph\":\"M\",\"name\":\"end\",\"pid\":0,\"args\":{}}\n]}\n";
constexpr std::string_view kHeaderStart = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"xoe\",";
constexpr std::string_view kHeaderEnd = "\"},\"traceEvents\":[\n";
constexpr std::size_t kHeaderLimit = 4096;
constexpr std::size_t kHostLimit = 255;

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

// False, with errno, if not everything could be written.
bool write_at(int fd, std::string_view data, off_t offset) {
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

// The offset of the next event: the start of the closing line, or, if a killed rank left half an event, the end of the
// last whole line.
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

// The quoted value of `key`. Quotes within values are escaped, so this finds no key inside a value.
std::optional<std::string_view> header_value(std::string_view header, std::string_view key) {
  const std::string start = fmt::format("\"{}\":\"", key);
  const auto at = header.find(start);
  if (at == std::string_view::npos) return std::nullopt;
  header.remove_prefix(at + start.size());
  return header.substr(0, header.find('"'));
}

Result<std::string> read_header(int fd, const std::string& path) {
  std::string header = read_at(fd, 0, kHeaderLimit);
  const auto end = header.find(kHeaderEnd);
  if (!header.starts_with(kHeaderStart) || end == std::string::npos) {
    return failure(Code::kDataLoss, "{} is not a timeline of Xoe", path);
  }
  header.resize(end + 1);
  return header;
}

}  // namespace

TraceHeader this_moment(std::string host) {
  if (host.empty()) host = host_name();
  const auto ns = [](auto time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  };
  return {std::move(host), read_line("/proc/sys/kernel/random/boot_id").value_or(""),
          ns(std::chrono::steady_clock::now()), ns(std::chrono::system_clock::now())};
}

std::string trace_header_line(const TraceHeader& header, std::string_view more) {
  std::string text = fmt::format("{}{}\"host\":\"", kHeaderStart, more);
  append_json_text(text, shortened_text(header.host, kHostLimit));
  if (!header.job.empty()) {
    text.append(R"(","job":")");
    append_json_text(text, header.job);
  }
  text += fmt::format(R"(","boot_id":"{}","wall_base_ns":"{}","clock_base_ns":"{})", header.boot_id,
                      header.wall_base_ns, header.base_ns);
  return text.append(kHeaderEnd);
}

std::string job_of_trace(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return {};
  const auto header = read_header(fd.get(), path);
  return header ? std::string(header_value(*header, "job").value_or("")) : std::string();
}

std::string_view trace_closing_lines() { return kTail; }

Result<TraceFile> TraceFile::create(const std::string& path, const TraceHeader& header) {
  // A new inode: a viewer, or a late rank of an earlier run, keeps the old file.
  ::unlink(path.c_str());
  const auto open = [&path] { return Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644)); };
  Fd fd = open();
  if (!fd.valid() && errno == ENOENT && make_folder_of(path)) fd = open();
  if (!fd.valid()) return failure(Code::kUnavailable, "cannot create the timeline {}: {}", path, errno_text(errno));
  if (!write_at(fd.get(), trace_header_line(header).append(kTail), 0)) {
    const int reason = errno;
    ::unlink(path.c_str());
    return failure(Code::kUnavailable, "cannot write the timeline {}: {}", path, errno_text(reason));
  }
  return TraceFile(path, std::move(fd), header.base_ns);
}

Result<TraceFile> TraceFile::join(const std::string& path, const std::string& job) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return failure(Code::kUnavailable, "cannot open the timeline {}: {}", path, errno_text(errno));
  XOE_ASSIGN(const std::string header, read_header(fd.get(), path));
  const auto base = parse_integer(header_value(header, "clock_base_ns").value_or(""));
  if (!base || header_value(header, "merged")) {
    return failure(Code::kDataLoss, "{} is not a timeline that a rank may write into", path);
  }
  const auto boot = header_value(header, "boot_id").value_or("");
  const std::string here = read_line("/proc/sys/kernel/random/boot_id").value_or("");
  if (!boot.empty() && !here.empty() && boot != here) {
    return failure(Code::kInvalidArgument,
                   "the timeline {} is of host {} or from before a restart, so that its clock is another; give each "
                   "host a file of its own, for example with {{host}} in its name",
                   path, header_value(header, "host").value_or("?"));
  }
  const auto its_job = header_value(header, "job").value_or("");
  if (!job.empty() && !its_job.empty() && its_job != job)
    return failure(Code::kInvalidArgument, "the timeline {} is of another job", path);
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
  const bool written = write_at(fd_.get(), std::string(lines).append(kTail), offset);
  const int reason = errno;
  if (written) {
    // Only after a repair can there be more bytes after the new end.
    if (end < info.st_size && ::ftruncate(fd_.get(), end) != 0) {
      return failure(Code::kUnavailable, "cannot write the timeline {}: {}", path_, errno_text(errno));
    }
    return {};
  }
  // The old end occupied these blocks, so writing it again needs no new space.
  const bool restored =
      write_at(fd_.get(), kTail, offset) && ::ftruncate(fd_.get(), offset + static_cast<off_t>(kTail.size())) == 0;
  return failure(Code::kResourceExhausted, "cannot write the timeline {}: {}; free some space or put it elsewhere{}",
                 path_, errno_text(reason), restored ? "" : " (its end is lost)");
}

}  // namespace xoe::trace

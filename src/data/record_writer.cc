#include "data/record_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "data/crc32c.h"

namespace xoe::data {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

template <class T>
void store(std::string& to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

tl::unexpected<Error> cannot_write(const std::string& path, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
  return failure(full ? Code::kResourceExhausted : Code::kUnavailable, "{}: cannot write: {}", path,
                 errno_text(error_number));
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

Result<Fd> create_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return cannot_write(path, errno);
  return fd;
}

Status synchronise(const Fd& fd, const std::string& path) {
  if (::fsync(fd.get()) != 0) return cannot_write(path, errno);
  return {};
}

Status publish(const std::string& temporary, const std::string& path) {
  if (::rename(temporary.c_str(), path.c_str()) != 0) return cannot_write(path, errno);
  return {};
}

// Hidden, so that no pattern for the finished files takes it for one.
std::string temporary_name(const std::string& path) {
  const auto slash = path.rfind('/') + 1;
  return fmt::format("{}.{}.unfinished-{}", path.substr(0, slash), path.substr(slash), ::getpid());
}

}  // namespace

RecordWriter::RecordWriter(std::string path, std::string temporary, Fd fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

RecordWriter::RecordWriter(RecordWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)),
      buffer_(std::move(other.buffer_)),
      records_(other.records_),
      bytes_(other.bytes_) {}

RecordWriter::~RecordWriter() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<RecordWriter> RecordWriter::create(std::string path) {
  std::string temporary = temporary_name(path);
  XOE_ASSIGN(Fd fd, create_file(temporary));
  return RecordWriter(std::move(path), std::move(temporary), std::move(fd));
}

Status RecordWriter::flush() {
  Status written = write_all(fd_.get(), path_, buffer_);
  buffer_.clear();
  return written;
}

Status RecordWriter::write(std::string_view data) {
  std::string length;
  store<std::uint64_t>(length, data.size());
  buffer_ += length;
  store<std::uint32_t>(buffer_, mask_crc(crc32c(length)));
  buffer_ += data;
  store<std::uint32_t>(buffer_, mask_crc(crc32c(data)));
  ++records_;
  bytes_ += data.size() + 16;
  return buffer_.size() < kBuffer ? Status{} : flush();
}

Status RecordWriter::complete() {
  XOE_TRY(flush());
  XOE_TRY(synchronise(fd_, path_));
  fd_ = Fd();
  return {};
}

Status RecordWriter::finish() {
  if (fd_.valid()) XOE_TRY(complete());
  XOE_TRY(publish(temporary_, path_));
  temporary_.clear();
  return {};
}

Status write_file(const std::string& path, std::string_view content) {
  const std::string temporary = temporary_name(path);
  XOE_ASSIGN(const Fd fd, create_file(temporary));
  Status written = write_all(fd.get(), path, content);
  if (written) written = synchronise(fd, path);
  if (written) written = publish(temporary, path);
  if (!written) ::unlink(temporary.c_str());
  return written;
}

}  // namespace xoe::data

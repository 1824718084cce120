#include "data/files/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "core/base/error.h"
#include "data/failure_in.h"
#include "data/files/missing.h"

namespace xoe::data {
namespace {

constexpr std::int64_t kNanoseconds = 1'000'000'000;

// Bytes per CPU-second, measured once, warm, with CRCs: read() into a small reused buffer 1, io_uring with registered
// buffers 1.1, mmap 1.2 to 1.3. But a mapping ends the process when a file becomes shorter or a disk fails, and many
// containers forbid io_uring.
class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(std::shared_ptr<const OpenFile> file) : file_(std::move(file)) {
    (void)::posix_fadvise(file_->fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }

  Result<std::size_t> read(char* to, std::size_t most) override {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(most, file_->bytes - position_));
    if (count == 0) return 0;
    // Partial reads count: whole records may lie in front of bytes that cannot be read.
    XOE_ASSIGN(const std::size_t got, file_->read_some_at(position_, to, count));
    position_ += got;
    return got;
  }
  Status seek(std::uint64_t offset) override {
    if (offset > file_->bytes)
      return failure(Code::kInvalidArgument, "{}: byte {} of a file of {} bytes", file_->path, offset, file_->bytes);
    position_ = offset;
    return {};
  }
  std::optional<std::uint64_t> bytes() const override { return file_->bytes; }

 private:
  std::shared_ptr<const OpenFile> file_;
  std::uint64_t position_ = 0;
};

}  // namespace

Result<OpenFile> OpenFile::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not block
  if (!fd.valid()) return failure(Code::kUnavailable, "{}: cannot open: {}", path, why_no_file(path, errno));
  struct stat facts = {};
  if (::fstat(fd.get(), &facts) != 0) return failure(Code::kUnavailable, "{}: {}", path, errno_text(errno));
  if (!S_ISREG(facts.st_mode)) return failure(Code::kUnavailable, "{}: not a regular file", path);
  return OpenFile{path, std::move(fd), static_cast<std::uint64_t>(facts.st_size),
                  facts.st_mtim.tv_sec * kNanoseconds + facts.st_mtim.tv_nsec};
}

Result<std::size_t> OpenFile::read_some_at(std::uint64_t offset, char* to, std::size_t count) const {
  ssize_t got = 0;
  do got = ::pread(fd.get(), to, count, static_cast<off_t>(offset));
  while (got < 0 && errno == EINTR);
  if (got < 0) return failure(Code::kUnavailable, "cannot read byte {}: {}", offset, errno_text(errno));
  if (got == 0)
    return failure(Code::kDataLoss, "the file became shorter while it was in use: {} of {} bytes are there", offset,
                   bytes);
  return static_cast<std::size_t>(got);
}

Status OpenFile::read_at(std::uint64_t offset, char* to, std::size_t count) const {
  for (std::size_t done = 0; done < count;) {
    XOE_ASSIGN(const std::size_t got, read_some_at(offset + done, to + done, count - done));
    done += got;
  }
  return {};
}

Result<std::string> read_head(const OpenFile& file, std::size_t most) {
  std::string head(static_cast<std::size_t>(std::min<std::uint64_t>(most, file.bytes)), '\0');
  if (auto got = file.read_at(0, head.data(), head.size()); !got) return failure_in(file.path, got.error());
  return head;
}

Status append_bytes(ByteSource& source, std::uint64_t count, std::string& to) {
  constexpr std::size_t kStep = std::size_t{1} << 20;
  const std::uint64_t whole = to.size() + count;
  while (to.size() < whole) {
    const std::size_t had = to.size();
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(kStep, whole - had));
    to.resize(had + step);
    const auto got = source.read(to.data() + had, step);
    to.resize(had + (got ? *got : 0));
    if (!got) return failure(got.error());
    if (*got == 0) return failure(Code::kDataLoss, "truncated: {} bytes are missing", whole - had);
  }
  return {};
}

std::unique_ptr<ByteSource> plain_source(std::shared_ptr<const OpenFile> file) {
  return std::make_unique<PlainSource>(std::move(file));
}

}  // namespace xoe::data

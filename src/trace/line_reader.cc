#include "trace/line_reader.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"

namespace xoe::trace {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 18;

}  // namespace

Result<bool> LineReader::fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t had = buffer_.size();
  buffer_.resize(had + kBlock);
  ssize_t got = -1;
  do {
    got = ::read(fd_, buffer_.data() + had, kBlock);
  } while (got < 0 && errno == EINTR);
  const int reason = errno;
  buffer_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) return failure(Code::kUnavailable, "{}: cannot read: {}", path_, errno_text(reason));
  return got > 0;
}

Status LineReader::skip_line() {
  while (true) {
    const auto newline = buffer_.find('\n', at_);
    const std::size_t stop = newline == std::string::npos ? buffer_.size() : newline + 1;
    offset_ += stop - at_;
    at_ = stop;
    if (newline != std::string::npos) return {};
    XOE_ASSIGN(const bool more, fill());
    if (!more) return {};
  }
}

Result<bool> LineReader::next(Line& line) {
  line = {.text = {}, .offset = offset_};
  std::size_t seen = at_;
  std::size_t newline = std::string::npos;
  while ((newline = buffer_.find('\n', seen)) == std::string::npos) {
    if (buffer_.size() - at_ > limit_) break;
    const std::size_t length = buffer_.size() - at_;
    XOE_ASSIGN(const bool more, fill());
    seen = at_ + length;
    if (more) continue;
    if (length == 0) return false;
    line.text = buffer_;
    line.whole = false;
    at_ = buffer_.size();
    offset_ += length;
    return true;
  }
  if (newline == std::string::npos || newline - at_ > limit_) {
    line.too_long = true;
    XOE_TRY(skip_line());
    return true;
  }
  line.text = std::string_view(buffer_).substr(at_, newline - at_);
  offset_ += newline + 1 - at_;
  at_ = newline + 1;
  return true;
}

}  // namespace xoe::trace

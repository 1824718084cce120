#include "launch/output/stream.h"

#include <unistd.h>

#include <array>

#include "base/error.h"
#include "base/text.h"

namespace xoe::launch {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kTailBytes = 4096;

}  // namespace

void LineCutter::feed(std::string_view bytes, std::string_view tag, std::string& out) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    if (end == std::string_view::npos) break;
    out.append(tag).append(partial_).append(bytes.substr(0, end + 1));
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
  partial_.append(bytes);
  if (partial_.size() < kLongest) return;
  if (!tag.empty()) return finish(tag, out);
  out.append(partial_);  // without tags the bytes of a rank pass as they are
  partial_.clear();
}

void LineCutter::finish(std::string_view tag, std::string& out) {
  if (partial_.empty()) return;
  out.append(tag).append(partial_).push_back('\n');
  partial_.clear();
}

Stream::Stream(Fd pipe, Fd file, std::string file_path, std::string tag, Sink& sink)
    : pipe_(std::move(pipe)),
      file_(std::move(file)),
      file_path_(std::move(file_path)),
      tag_(std::move(tag)),
      sink_(&sink) {}

void Stream::pump() {
  std::array<char, kReadBytes> chunk;
  const auto count = ::read(pipe_.get(), chunk.data(), chunk.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return close();
  feed({chunk.data(), static_cast<std::size_t>(count)});
}

void Stream::feed(std::string_view bytes) {
  keep(bytes);
  std::string lines;
  lines.reserve(bytes.size() + 64 * tag_.size());
  cutter_.feed(bytes, tag_, lines);
  sink_->write(lines);
}

void Stream::close() {
  std::string lines;
  cutter_.finish(tag_, lines);
  sink_->write(lines);
  pipe_ = Fd();
  file_ = Fd();
}

void Stream::keep(std::string_view bytes) {
  tail_.append(bytes);
  if (tail_.size() > 4 * kTailBytes) {
    tail_.erase(0, tail_.size() - kTailBytes);
    tail_cut_ = true;
  }
  while (file_.valid() && !bytes.empty()) {
    const auto count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      file_error_ = fmt::format("{} is incomplete: {}", file_path_, errno_text(errno));
      file_ = Fd();
    }
  }
}

std::vector<std::string> Stream::last_lines(std::size_t most) const {
  std::string_view text = tail_;
  const bool cut = tail_cut_ || text.size() > kTailBytes;
  if (text.size() > kTailBytes) text.remove_prefix(text.size() - kTailBytes);
  if (cut) text.remove_prefix(std::min(text.find('\n') + 1, text.size()));  // the rest of a line
  while (text.ends_with('\n')) text.remove_suffix(1);
  if (text.empty()) return {};
  auto lines = split_text(text, '\n');
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(most));
  return lines;
}

std::vector<std::string> file_errors_of(const std::vector<Stream>& streams) {
  std::vector<std::string> errors;
  for (const Stream& stream : streams)
    if (!stream.file_error().empty()) errors.push_back(stream.file_error());
  return errors;
}

}  // namespace xoe::launch

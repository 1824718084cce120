#include "launch/output/stream.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::launch {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kTailBytes = 4096;
constexpr auto kBarEvery = std::chrono::seconds(10);        // where there is no terminal
constexpr auto kBarPause = std::chrono::milliseconds(200);  // bars below each other are drawn in much less

}  // namespace

Stream::Stream(Fd pipe, Fd file, std::string file_path, std::string tag, Sink& sink)
    : pipe_(std::move(pipe)),
      file_(std::move(file)),
      file_path_(std::move(file_path)),
      tag_(std::move(tag)),
      sink_(&sink),
      cutter_(tag_.empty() && !sink.terminal() ? LineCutter::Bars::kPass : LineCutter::Bars::kFollow) {}

void Stream::pump() {
  std::array<char, kReadBytes> chunk;
  const auto count = ::read(pipe_.get(), chunk.data(), chunk.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return close();
  feed({chunk.data(), static_cast<std::size_t>(count)});
}

void Stream::feed(std::string_view bytes) {
  keep(bytes);
  heard_ = Clock::now();
  std::string lines;
  lines.reserve(bytes.size() + 64 * tag_.size());
  cutter_.feed(bytes, tag_, lines);
  flush_at_ = cutter_.has_open_bar() ? std::optional(Clock::now() + kBarPause) : std::nullopt;
  write_lines(std::move(lines));
}

void Stream::flush_bar(Clock::time_point now) {
  if (!flush_at_ || now < *flush_at_) return;
  flush_at_.reset();
  std::string lines;
  cutter_.flush_bar(tag_, lines);
  write_lines(std::move(lines));
}

void Stream::close() {
  flush_at_.reset();
  std::string lines;
  cutter_.finish(tag_, lines);
  write_lines(std::move(lines));
  pipe_ = Fd();
  file_ = Fd();
}

void Stream::write_lines(std::string lines) {
  if (place_ && !sink_->terminal())
    if (const std::string bar = cutter_.bar(); !bar.empty() && Clock::now() >= bar_written_ + kBarEvery) {
      bar_written_ = Clock::now();
      lines.append(tag_).append(bar).push_back('\n');
    }
  sink_->write(lines);
  if (!place_ || !sink_->terminal()) return;
  std::vector<std::string> live = cutter_.live();
  for (std::string& line : live) line.insert(0, tag_);
  sink_->show(*place_, std::move(live));
}

// What a later '\r' draws over is forgotten at once.
void Stream::remember(std::string_view bytes) {
  while (!bytes.empty()) {
    if (std::exchange(tail_returned_, false) && bytes.front() != '\n' && bytes.front() != '\r')
      tail_.erase(tail_.rfind('\n') + 1);
    const auto end = bytes.find('\r');
    tail_.append(bytes.substr(0, end));
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    tail_returned_ = true;
  }
}

void Stream::keep(std::string_view bytes) {
  remember(bytes);
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

std::string Stream::last_line() const {
  if (place_ && sink_->terminal() && !cutter_.live().empty()) return {};
  const std::string_view text = trimmed(tail_);
  return std::string(text.substr(text.find_last_of('\n') + 1));
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

std::optional<std::chrono::steady_clock::time_point> first_flush(const std::vector<Stream>& streams) {
  std::optional<std::chrono::steady_clock::time_point> first;
  for (const Stream& stream : streams)
    if (const auto at = stream.flush_at()) first = std::min(first.value_or(*at), *at);
  return first;
}

std::vector<std::string> file_errors_of(const std::vector<Stream>& streams) {
  std::vector<std::string> errors;
  for (const Stream& stream : streams)
    if (!stream.file_error().empty()) errors.push_back(stream.file_error());
  return errors;
}

}  // namespace xoe::launch

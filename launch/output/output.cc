#include "launch/output/output.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/command_line/terminal.h"

namespace xoe::launch {
namespace {

std::size_t chunk_of(int fd, bool terminal) {
  struct stat facts = {};
  if (::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode)) return std::size_t{1} << 18;
  return terminal ? 1024 : 4096;  // 4096: PIPE_BUF
}

bool writable(int fd) {
  pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&entry, 1, 0) == 1;
}

constexpr int kNarrow = 80;  // columns and rows, where the terminal does not say
constexpr int kLow = 24;

bool same_file(int a, int b) {
  struct stat first = {};
  struct stat second = {};
  if (::fstat(a, &first) != 0 || ::fstat(b, &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

}  // namespace

Sink::Sink(int fd)
    : fd_(fd), terminal_(::isatty(fd) == 1), chunk_(chunk_of(fd, terminal_)), error_(fd < 0 ? EBADF : 0) {}

void Sink::write(std::string_view text) {
  if (error_ != 0 || text.empty()) return;
  take_away();
  queue_.append(text);
}

void Sink::show(Place place, std::vector<std::string> lines) {
  auto& shown = shown_[static_cast<std::size_t>(place)];
  if (shown == lines) return;
  shown = std::move(lines);
  redraw_ = true;
}

void Sink::hide() {
  for (auto& lines : shown_) lines.clear();
  take_away();
  redraw_ = false;
}

void Sink::typed(std::size_t line_ends) {
  if (!shown_[static_cast<std::size_t>(Place::kPanel)].empty() && !drawn_.empty())
    drawn_.insert(drawn_.end(), line_ends, 0);
}

// The drawn lines are at the end of the queue or on the terminal already. Where the terminal has become
// narrower, most have wrapped the rows that are too long for it.
void Sink::take_away() {
  if (drawn_.empty()) return;
  const auto columns = static_cast<std::size_t>(command_line::terminal_width(fd_, kNarrow));
  std::size_t rows = 0;
  for (const std::size_t row : drawn_) rows += std::max<std::size_t>(1, (row + columns - 1) / columns);
  queue_.append("\r\x1b[K");
  for (; rows > 1; --rows) queue_.append("\x1b[A\x1b[K");
  drawn_.clear();
  redraw_ = true;
}

bool Sink::draw() {
  if (!redraw_ || error_ != 0) return false;
  take_away();
  redraw_ = false;
  const auto columns = static_cast<std::size_t>(command_line::terminal_width(fd_, kNarrow));
  // What has left the screen upwards cannot be taken away: the last rows stay.
  const auto rows = static_cast<std::size_t>(command_line::terminal_height(fd_, kLow));
  std::size_t too_many = shown_[0].size() + shown_[1].size() + shown_[2].size();
  too_many -= std::min(too_many, rows);
  for (const auto& lines : shown_) {
    for (const std::string& line : lines) {
      if (too_many > 0) {
        --too_many;
        continue;
      }
      const std::string row = command_line::fitted(line, columns - 1);
      queue_.append(drawn_.empty() ? "" : "\n").append(row);
      drawn_.push_back(command_line::columns_of(row));
    }
  }
  return true;
}

// Lines are drawn only when all else is written, so that a slow terminal sees the newest ones.
void Sink::flush() {
  send();
  if (empty() && draw()) send();
}

void Sink::send() {
  while (!empty() && writable(fd_)) {
    const auto count = ::write(fd_, queue_.data() + written_, std::min(chunk_, queue_.size() - written_));
    if (count >= 0) {
      written_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      error_ = errno;
      queue_.clear();
      written_ = 0;
    }
  }
  // Rarely enough that moving the rest to the front costs less than the writes did.
  if (empty() || written_ > kFull) {
    queue_.erase(0, written_);
    written_ = 0;
  }
}

Output::Output(int out, int err) : out_(out), err_(err), same_(same_file(out, err)) {}

void Output::hide() {
  out_.hide();
  err_.hide();
}

void Output::resized() {
  out_.resized();
  err_.resized();
}

void Output::use_panel(std::vector<std::string> tags, bool color) {
  panel_.emplace(std::move(tags), Panel::Clock::now());
  color_ = color;
}

void Output::show_panel(std::span<const std::string> last_lines) {
  const int fd = out_.fd();
  out_.show(Sink::Place::kPanel,
            panel_->lines(last_lines, {.color = color_,
                                       .width = static_cast<std::size_t>(command_line::terminal_width(fd, kNarrow)),
                                       .height = static_cast<std::size_t>(command_line::terminal_height(fd, kLow))}));
}

void Output::flush() {
  out_.flush();
  if (!same_) err_.flush();
}

}  // namespace xoe::launch

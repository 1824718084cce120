#include "launch/output/output.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "manners/terminal.h"

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

Sink::Sink(int fd) : fd_(fd), terminal_(::isatty(fd) == 1), chunk_(chunk_of(fd, terminal_)) {}

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

// The drawn lines are at the end of the queue or on the terminal already.
void Sink::take_away() {
  if (drawn_ == 0) return;
  queue_.append("\r\x1b[K");
  for (; drawn_ > 1; --drawn_) queue_.append("\x1b[A\x1b[K");
  drawn_ = 0;
  redraw_ = true;
}

bool Sink::draw() {
  if (!redraw_ || error_ != 0) return false;
  take_away();
  redraw_ = false;
  const auto columns = static_cast<std::size_t>(manners::terminal_width(fd_, kNarrow));
  // What has left the screen upwards cannot be taken away: the last rows stay.
  const auto rows = static_cast<std::size_t>(manners::terminal_height(fd_, kLow));
  std::size_t too_many = shown_[0].size() + shown_[1].size();
  too_many -= std::min(too_many, rows);
  for (const auto& lines : shown_) {
    for (const std::string& line : lines) {
      if (too_many > 0) {
        --too_many;
        continue;
      }
      queue_.append(drawn_++ == 0 ? "" : "\n").append(manners::fitted(line, columns - 1));
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

void Output::flush() {
  out_.flush();
  if (!same_) err_.flush();
}

}  // namespace xoe::launch

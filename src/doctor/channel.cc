#include "doctor/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"

namespace xoe::doctor {
namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 20;  // that wait to be taken
constexpr std::size_t kMostError = 8192;
constexpr auto kGrace = std::chrono::milliseconds(1000);

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return failure(Code::kResourceExhausted, "cannot make a pipe: {}", errno_text(errno));
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// A socket: sending to a process that ended then raises no SIGPIPE.
Result<Pipe> make_input() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return failure(Code::kResourceExhausted, "cannot make a pair of sockets: {}", errno_text(errno));
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

void do_not_block(const Fd& fd) { ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

[[noreturn]] void run_child(const Pipe& in, const Pipe& out, const Pipe& error, pid_t parent,
                            const std::vector<char*>& argv) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  ::dup2(in.read.get(), 0);
  ::dup2(out.write.get(), 1);
  ::dup2(error.write.get(), 2);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  // The words of its errors are looked at.
  ::setenv("LC_ALL", "C", 1);
  ::execvp(argv[0], argv.data());
  const std::string words = fmt::format("cannot start {}: {}\n", argv[0], errno_text(errno));
  [[maybe_unused]] const auto written = ::write(2, words.data(), words.size());
  ::_exit(255);
}

}  // namespace

Channel::Channel(pid_t child, Fd in, Fd out, Fd error)
    : child_(child), in_(std::move(in)), out_(std::move(out)), error_(std::move(error)) {
  for (const Fd* fd : {&in_, &out_, &error_}) do_not_block(*fd);
}

Channel::Channel(Channel&& other) noexcept
    : child_(std::exchange(other.child_, -1)),
      code_(other.code_),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      error_(std::move(other.error_)),
      out_text_(std::move(other.out_text_)),
      error_text_(std::move(other.error_text_)) {}

Channel& Channel::operator=(Channel other) noexcept {
  std::swap(child_, other.child_);
  std::swap(code_, other.code_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  std::swap(error_, other.error_);
  std::swap(out_text_, other.out_text_);
  std::swap(error_text_, other.error_text_);
  return *this;
}

Channel::~Channel() {
  if (child_ < 0) return;
  in_ = Fd();
  code(kGrace);
  if (child_ < 0) return;
  ::kill(-child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

Result<Channel> Channel::start(const std::vector<std::string>& arguments) {
  XOE_ASSIGN(Pipe in, make_input());
  XOE_ASSIGN(Pipe out, make_pipe());
  XOE_ASSIGN(Pipe error, make_pipe());
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return failure(Code::kResourceExhausted, "cannot start a process: {}", errno_text(errno));
  if (child == 0) run_child(in, out, error, parent, argv);
  ::setpgid(child, child);
  return Channel(child, std::move(in.write), std::move(out.read), std::move(error.read));
}

Status Channel::send(std::string_view line) {
  const std::string whole = std::string(line) + "\n";
  // What is sent fits into what a process leaves unread at most.
  if (!in_.valid() || ::send(in_.get(), whole.data(), whole.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(whole.size()))
    return failure(Code::kUnavailable, "it takes no more requests");
  return {};
}

bool Channel::has_answer() const {
  const auto at = out_text_.starts_with(kAnswerMark) ? 0 : out_text_.find("\n" + std::string(kAnswerMark));
  return at != std::string::npos && out_text_.find('\n', at + 1) != std::string::npos;
}

std::optional<std::string> Channel::take() {
  while (true) {
    const auto end = out_text_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = out_text_.substr(0, end);
    out_text_.erase(0, end + 1);
    if (line.starts_with(kAnswerMark)) return line.substr(kAnswerMark.size());
  }
}

void Channel::read_out() {
  char part[65536];
  const auto count = ::read(out_.get(), part, sizeof part);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // Also one that floods us is at its end.
  if (count <= 0 || out_text_.size() > kMostBytes) {
    out_ = Fd();
    return;
  }
  out_text_.append(part, static_cast<std::size_t>(count));
}

void Channel::read_error() {
  char part[4096];
  const auto count = ::read(error_.get(), part, sizeof part);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    error_ = Fd();
    return;
  }
  error_text_.append(part, static_cast<std::size_t>(count));
  if (error_text_.size() > kMostError) error_text_.erase(0, error_text_.size() - kMostError);
}

int Channel::code(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (child_ >= 0) {
    if (error_.valid()) read_error();
    int status = 0;
    if (::waitpid(child_, &status, WNOHANG) == child_) {
      child_ = -1;
      code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      while (error_.valid()) {
        const auto before = error_text_.size();
        read_error();
        if (error_.valid() && error_text_.size() == before) break;
      }
    } else if (Clock::now() >= deadline) {
      break;
    } else {
      ::usleep(1000);
    }
  }
  return code_;
}

bool Channel::wait(std::span<Channel* const> channels, Clock::time_point deadline) {
  while (true) {
    std::vector<pollfd> entries;
    std::vector<std::pair<Channel*, bool>> owners;  // and whether it is the error stream
    bool waiting = false;
    for (Channel* const channel : channels) {
      if (channel->has_answer() || channel->ended()) continue;
      waiting = true;
      entries.push_back({channel->out_.get(), POLLIN, 0});
      owners.emplace_back(channel, false);
      if (!channel->error_.valid()) continue;
      entries.push_back({channel->error_.get(), POLLIN, 0});
      owners.emplace_back(channel, true);
    }
    if (!waiting) break;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) break;
    ::poll(entries.data(), entries.size(), static_cast<int>(std::min<std::int64_t>(left, 1000)));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      if (owners[i].second)
        owners[i].first->read_error();
      else
        owners[i].first->read_out();
    }
  }
  return std::all_of(channels.begin(), channels.end(), [](const Channel* channel) { return channel->has_answer(); });
}

Result<std::string> Channel::ask(std::string_view line, std::chrono::milliseconds patience) {
  XOE_TRY(send(line));
  Channel* const self = this;
  if (!wait(std::span(&self, 1), Clock::now() + patience))
    return failure(ended() ? Code::kUnavailable : Code::kTimeout, "{}",
                   ended() ? "it ended without an answer" : fmt::format("no answer within {} ms", patience.count()));
  return take().value_or("");
}

}  // namespace xoe::doctor

#include "measure/cli/failures/watched_training.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::bench {
namespace {

constexpr std::size_t kLongestLine = 1 << 20;
constexpr std::size_t kLastLines = 12;
constexpr auto kEndTimeout = std::chrono::seconds(30);  // between SIGTERM and SIGKILL

int milliseconds_until(WatchedTraining::Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - WatchedTraining::Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

Result<WatchedTraining> WatchedTraining::start(const std::vector<std::string>& words) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return failure(Code::kUnavailable, "no pipe for the output of {}: {}", words[0], errno_text(errno));
  Fd out(ends[0]), in(ends[1]);
  ::fcntl(in.get(), F_SETFL, 0);
  const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  auto inherited = remote::Inherited::current();
  // These may be held back here; the training is to get them.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigdelset(&inherited.mask, signal);
  std::vector<std::string> settings;
  for (const auto& [name, value] : inherited.env.all()) settings.push_back(name + "=" + value);
  const auto environment = remote::c_strings(settings);
  const auto arguments = remote::c_strings(words);
  auto spawned = remote::spawn({.path = arguments[0],
                                .argv = arguments.data(),
                                .envp = environment.data(),
                                .in = nothing.get(),
                                .out = in.get(),
                                .err = in.get(),
                                .signal_mask = inherited.mask,
                                .open_files = inherited.open_files});
  if (!spawned) return failure(Code::kUnavailable, "cannot start {}: {}", words[0], errno_text(spawned.error()));
  return WatchedTraining(std::move(*spawned), std::move(out));
}

WatchedTraining::~WatchedTraining() {
  if (process_.pid <= 0 || !process_.pidfd.valid() || status_) return;
  ::kill(-process_.pid, SIGTERM);
  finish(kEndTimeout);
  if (status_) return;
  ::kill(-process_.pid, SIGKILL);
  has_ended(-1);
}

bool WatchedTraining::wait(Clock::time_point deadline, int also) {
  std::array<pollfd, 3> entries{pollfd{.fd = output_.get(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = process_.pidfd.get(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = also, .events = POLLIN, .revents = 0}};
  ::poll(entries.data(), entries.size(), milliseconds_until(deadline));
  read();
  if (entries[1].revents == 0 || !has_ended(0)) return true;
  read();  // what it had printed before
  return false;
}

void WatchedTraining::read() {
  std::array<char, 65536> part;
  while (output_.valid()) {
    const ssize_t count = ::read(output_.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    if (count == 0) return static_cast<void>(output_ = Fd());
    line_.append(part.data(), static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (auto end = line_.find('\n'); end != std::string::npos; end = line_.find('\n', begin)) {
      take(std::string_view(line_).substr(begin, end - begin));
      begin = end + 1;
    }
    line_.erase(0, begin);
    if (line_.size() > kLongestLine) line_.clear();
  }
}

void WatchedTraining::take(std::string_view line) {
  last_lines_.emplace_back(line.substr(0, 400));
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
  const auto begin = line.find("{\"event\"");
  if (begin == std::string_view::npos) return;
  const auto event = nlohmann::json::parse(line.substr(begin), nullptr, /*allow_exceptions=*/false);
  if (!event.is_object() || !event["event"].is_string()) return;
  const auto number = [&](const char* name) {
    const auto found = event.find(name);
    return found != event.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
  };
  if (event["event"] == "report" && number("step") > 0) steps_.push_back({.step = number("step"), .at = Clock::now()});
  if (event["event"] == "process" && number("pid") > 1 && number("rank") >= 0)
    ranks_.insert_or_assign(static_cast<int>(number("rank")),
                            Fd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(number("pid")), 0U))));
}

bool WatchedTraining::kill_rank(int rank) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end() || !found->second.valid()) return false;
  return ::syscall(SYS_pidfd_send_signal, found->second.get(), SIGKILL, nullptr, 0U) == 0;
}

bool WatchedTraining::has_ended(int timeout_ms) {
  pollfd entry{.fd = process_.pidfd.get(), .events = POLLIN, .revents = 0};
  if (status_ || ::poll(&entry, 1, timeout_ms) <= 0) return status_.has_value();
  int status = 0;
  if (::waitpid(process_.pid, &status, 0) == process_.pid) status_ = status;
  return status_.has_value();
}

void WatchedTraining::finish(std::chrono::nanoseconds limit) {
  const auto until = Clock::now() + limit;
  while (Clock::now() < until && wait(until)) {
  }
}

std::string WatchedTraining::describe_end() const {
  return fmt::format("{}\n{}", status_ ? remote::describe_status(*status_) : "runs", fmt::join(last_lines_, "\n"));
}

}  // namespace xoe::bench

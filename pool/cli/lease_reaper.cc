#include "pool/cli/lease_reaper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "pool/enforce/device_rule.h"

namespace xoe::tools::pool {
namespace {

// One message; written and read whole.
struct Note {
  char what = 0;
  std::int64_t number = 0;
};

constexpr int kProgramTimeoutMs = 10000;
// For the processes of a program that was killed.
constexpr auto kRemainder = std::chrono::milliseconds(500);
constexpr auto kEndTimeout = std::chrono::seconds(5);  // from SIGTERM to SIGKILL
constexpr auto kDescendantsTimeout = std::chrono::seconds(15);
// A server that is being restarted takes leases back a little later.
constexpr Span kServerTimeout = std::chrono::minutes(10);

struct Held {
  std::set<std::int64_t> leases = {};
  Fd program = {};
};

Held follow(int pipe) {
  Held held;
  Note note;
  for (;;) {
    const auto count = ::read(pipe, &note, sizeof note);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof note) return held;
    if (note.what == '+') held.leases.insert(note.number);
    if (note.what == '-') held.leases.erase(note.number);
    if (note.what == 'p') held.program = Fd(static_cast<int>(::syscall(SYS_pidfd_open, note.number, 0)));
  }
}

// Processes with this entry in their environment: what the program started, wherever that is by now.
std::vector<pid_t> processes_with(const std::string& entry) {
  std::vector<pid_t> found;
  std::error_code error;  // ends the look
  std::filesystem::directory_iterator folders("/proc", error);
  for (; !error && folders != std::filesystem::directory_iterator(); folders.increment(error)) {
    const auto pid = parse_integer(folders->path().filename().string());
    if (!pid) continue;
    const auto environment = read_text_file(folders->path() / "environ");
    if (environment && std::ranges::count(split_text(*environment, '\0'), entry) != 0)
      found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

// They would go on to use GPUs that the next holder has.
void end_descendants(const std::string& mark) {
  const std::string entry = fmt::format("{}={}", kRunVariable, mark);
  const auto begin = std::chrono::steady_clock::now();
  std::set<pid_t> asked;
  for (auto now = begin; now < begin + kDescendantsTimeout; now = std::chrono::steady_clock::now()) {
    const std::vector<pid_t> left = processes_with(entry);
    if (left.empty()) return;
    for (const pid_t pid : left) {
      if (now >= begin + kEndTimeout)
        ::kill(pid, SIGKILL);
      else if (asked.insert(pid).second)
        ::kill(pid, SIGTERM);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void keep(int notes, const Connection& connection, pid_t run, const std::string& mark) {
  constexpr int kPipe = 3;
  ::setsid();
  ::prctl(PR_SET_NAME, "xoe-pool-reaper");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) std::signal(signal, SIG_IGN);
  // Readers of the program's output must not wait for this process.
  const int null = ::open("/dev/null", O_RDWR);
  for (const int fd : {0, 1}) ::dup2(null, fd);
  ::dup2(notes, kPipe);
  ::close_range(kPipe + 1, ~0U, 0);
  const Held held = follow(kPipe);
  if (held.leases.empty()) return;
  if (held.program.valid()) {
    pollfd gone{.fd = held.program.get(), .events = POLLIN, .revents = 0};
    ::poll(&gone, 1, kProgramTimeoutMs);
    std::this_thread::sleep_for(kRemainder);
  }
  end_descendants(mark);
  xoe::pool::remove_device_rule(device_rule_name(run));
  auto client = connect(connection, kServerTimeout);
  if (!client) {
    fail(client.error());
    return;
  }
  for (const std::int64_t lease : held.leases)
    if (const Status released = release(*client, connection, lease); !released) fail(released.error());
}

}  // namespace

std::string run_mark(pid_t run) {
  // When it started, in ticks since the machine did: field 22, the 20th after the program's name.
  const auto stat = read_text_file(fmt::format("/proc/{}/stat", run));
  const auto name_end = stat ? stat->rfind(')') : std::string::npos;
  const auto fields = name_end == std::string::npos ? std::vector<std::string>()
                                                    : split_text(std::string_view(*stat).substr(name_end + 1), ' ');
  constexpr std::size_t kStart = 20;
  return fmt::format("{}-{}", run, fields.size() > kStart ? fields[kStart] : "");
}

std::string device_rule_name(pid_t run) { return fmt::format("xoe-pool-run-{}", run); }

Result<LeaseReaper> LeaseReaper::start(const Connection& connection) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failure(Code::kUnavailable, "no pipe: {}", errno_text(errno));
  const Fd in(ends[0]);
  LeaseReaper reaper{Fd(ends[1])};
  // Twice, so that it is no child of this process: a program that waits for all of its children does not meet it.
  const pid_t run = ::getpid();
  const std::string mark = run_mark(run);
  const pid_t pid = ::fork();
  if (pid < 0) return failure(Code::kUnavailable, "cannot start a process: {}", errno_text(errno));
  if (pid == 0) {
    reaper.pipe_ = Fd();
    if (::fork() == 0) keep(in.get(), connection, run, mark);
    ::_exit(0);
  }
  ::waitpid(pid, nullptr, 0);
  return reaper;
}

void LeaseReaper::tell(char what, std::int64_t number) const {
  const Note note{what, number};
  // Shorter than PIPE_BUF, so it is written whole.
  [[maybe_unused]] const auto written = ::write(pipe_.get(), &note, sizeof note);
}

}  // namespace xoe::tools::pool

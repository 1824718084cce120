#include "pool/cli/lease_reaper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "pool/cli/detached_process.h"
#include "pool/cli/marked_processes.h"
#include "pool/enforce/device_rule.h"

namespace xoe::tools::pool {
namespace {

// One message; written whole, and read in as many parts as it comes in.
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

// False: the other end is closed.
bool read_note(int pipe, Note& note) {
  for (std::size_t done = 0; done < sizeof note;) {
    const auto count = ::read(pipe, reinterpret_cast<char*>(&note) + done, sizeof note - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

Held follow(int pipe) {
  Held held;
  Note note;
  while (read_note(pipe, note)) {
    if (note.what == '+') held.leases.insert(note.number);
    if (note.what == '-') held.leases.erase(note.number);
    if (note.what == 'p') held.program = Fd(static_cast<int>(::syscall(SYS_pidfd_open, note.number, 0)));
  }
  return held;
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

std::string run_mark(pid_t run) { return fmt::format("{}-{}", run, start_of_process(run)); }

std::string device_rule_name(pid_t run) { return fmt::format("xoe-pool-run-{}", run); }

Result<LeaseReaper> LeaseReaper::start(const Connection& connection) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failure(Code::kUnavailable, "no pipe: {}", errno_text(errno));
  const Fd in(ends[0]);
  LeaseReaper reaper{Fd(ends[1])};
  const pid_t run = ::getpid();
  XOE_TRY(start_detached([notes = in.get(), ours = ends[1], connection, run, mark = run_mark(run)] {
    ::close(ours);  // else this process would not see that the other one has ended
    keep(notes, connection, run, mark);
  }));
  return reaper;
}

void LeaseReaper::tell(char what, std::int64_t number) const {
  const Note note{what, number};
  // Shorter than PIPE_BUF, so it is written whole.
  [[maybe_unused]] const auto written = ::write(pipe_.get(), &note, sizeof note);
}

}  // namespace xoe::tools::pool

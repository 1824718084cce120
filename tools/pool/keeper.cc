#include "tools/pool/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>
#include <thread>

#include "base/error.h"
#include "pool/enforce/device_rule.h"

namespace xoe::tools::pool {
namespace {

// One message; written and read whole.
struct Note {
  char what = 0;
  std::int64_t number = 0;
};

constexpr int kProgramPatienceMs = 10000;
// For the processes of a program that was killed.
constexpr auto kRemainder = std::chrono::milliseconds(500);
// A server that is being restarted takes leases back a little later.
constexpr Span kServerPatience = std::chrono::minutes(10);

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

void keep(int notes, const Connection& connection, pid_t run) {
  constexpr int kPipe = 3;
  ::setsid();
  ::prctl(PR_SET_NAME, "xoe-pool-keeper");
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
    ::poll(&gone, 1, kProgramPatienceMs);
    std::this_thread::sleep_for(kRemainder);
  }
  xoe::pool::remove_device_rule(device_rule_name(run));
  auto client = connect(connection, kServerPatience);
  if (!client) {
    fail(client.error());
    return;
  }
  for (const std::int64_t lease : held.leases)
    if (const Status released = release(*client, connection, lease); !released) fail(released.error());
}

}  // namespace

std::string device_rule_name(pid_t run) { return fmt::format("xoe-pool-run-{}", run); }

Result<Keeper> Keeper::start(const Connection& connection) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failure(Code::kUnavailable, "no pipe: {}", errno_text(errno));
  const Fd in(ends[0]);
  Keeper keeper{Fd(ends[1])};
  // Twice, so that it is no child of this process: a program that waits for all of its children does not meet it.
  const pid_t run = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return failure(Code::kUnavailable, "cannot start a process: {}", errno_text(errno));
  if (pid == 0) {
    keeper.pipe_ = Fd();
    if (::fork() == 0) keep(in.get(), connection, run);
    ::_exit(0);
  }
  ::waitpid(pid, nullptr, 0);
  return keeper;
}

void Keeper::tell(char what, std::int64_t number) const {
  const Note note{what, number};
  // Shorter than PIPE_BUF, so it is written whole.
  [[maybe_unused]] const auto written = ::write(pipe_.get(), &note, sizeof note);
}

}  // namespace xoe::tools::pool

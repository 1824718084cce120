// What the pool's programs do with processes by fork() and /proc, as a simulation has it: memory behind pointers is
// shared there, so that what a copy uses is its own.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/process_activity.h"
#include "core/testing/sim/simulation.h"
#include "launch/remote/children.h"
#include "launch/remote/spawn.h"
#include "pool/cli/detached_process.h"
#include "pool/cli/marked_processes.h"
#include "pool/cli/start_program.h"
#include "pool/inventory/inventory.h"

namespace xoe::remote {

std::vector<pid_t> children_of_this_process() { return sim::children_of_caller(); }
bool is_exiting(pid_t child) { return sim::is_ending(child); }

}  // namespace xoe::remote

namespace xoe {

std::optional<ProcessActivity> process_activity(pid_t pid) {
  const auto here = sim::processes_of_this_host();
  if (std::ranges::find(here, pid) == here.end()) return std::nullopt;
  return ProcessActivity{.at = std::chrono::steady_clock::now()};
}

namespace pool {

std::string user_of_process(std::int64_t pid) { return sim::variable_of(static_cast<pid_t>(pid), "USER"); }

}  // namespace pool

namespace tools::pool {

std::vector<pid_t> processes_with(const std::string& entry) {
  const auto equals = entry.find('=');
  std::vector<pid_t> found;
  for (const pid_t pid : sim::processes_of_this_host())
    if (sim::variable_of(pid, entry.substr(0, equals)) == entry.substr(equals + 1)) found.push_back(pid);
  return found;
}

std::string start_of_process(pid_t pid) { return std::to_string(pid); }

Status start_detached(std::function<void()> run) {
  const pid_t pid = sim::start_copy_of_caller([run = std::move(run)] {
    sim::start_copy_of_caller([run] {
      run();
      ::_exit(0);
    });
    ::_exit(0);
  });
  ::waitpid(pid, nullptr, 0);
  return {};
}

Result<pid_t> start_program(const std::vector<std::string>& program, const sigset_t& mask, int passed,
                            const xoe::pool::DeviceRule* rule) {
  if (passed >= 0 || rule != nullptr) return failure(Code::kUnsupported, "{}", "not in a simulation");
  int failed[2];
  if (::pipe2(failed, O_CLOEXEC) != 0) return failure(Code::kUnavailable, "no pipe: {}", errno_text(errno));
  const Fd in(failed[0]);
  Fd out(failed[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = sim::start_copy_of_caller([words = program, mask, parent, told = failed[1]] {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    ::execvp(words[0].c_str(), remote::c_strings(words).data());
    const int error = errno;
    [[maybe_unused]] const auto written = ::write(told, &error, sizeof error);
    ::_exit(127);
  });
  out = Fd();
  int error = 0;
  if (::read(in.get(), &error, sizeof error) != sizeof error) return pid;
  ::waitpid(pid, nullptr, 0);
  return failure(Code::kInvalidArgument, "cannot start {}: {}", program[0], errno_text(error));
}

}  // namespace tools::pool
}  // namespace xoe

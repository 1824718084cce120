#include "measure/cli/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/remote/shell.h"
#include "launch/remote/spawn.h"

namespace xoe::bench {
namespace {

constexpr off_t kMostTail = 4000;  // bytes of output in a message

std::string tail_of(int file) {
  struct stat info = {};
  if (::fstat(file, &info) != 0) return {};
  const off_t from = info.st_size > kMostTail ? info.st_size - kMostTail : 0;
  std::string text(static_cast<std::size_t>(info.st_size - from), '\0');
  const ssize_t count = ::pread(file, text.data(), text.size(), from);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return std::string(trimmed(text));
}

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& words, const ChildOptions& options) {
  Fd output(::memfd_create("xoe-bench-output", MFD_CLOEXEC));
  Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!output.valid() || !nothing.valid())
    return failure(Code::kUnavailable, "no file for the output of {}: {}", words[0], errno_text(errno));
  auto all = Env::process().all();
  for (const auto& [name, value] : options.variables) all[name] = value;
  std::vector<std::string> settings;
  settings.reserve(all.size());
  for (const auto& [name, value] : all) settings.push_back(name + "=" + value);
  const std::vector<char*> environment = remote::c_strings(settings);
  const std::vector<char*> arguments = remote::c_strings(words);
  // Nothing that allocates may run between fork and exec, in case there are other threads.
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return failure(Code::kUnavailable, "cannot start {}: {}", words[0], errno_text(errno));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    if (options.cpus) ::sched_setaffinity(0, sizeof *options.cpus, &*options.cpus);
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(output.get(), STDOUT_FILENO);
    ::dup2(output.get(), STDERR_FILENO);
    ::execve(arguments[0], arguments.data(), environment.data());
    ::_exit(127);
  }
  return Child(pid, std::move(output), remote::shell_line(words));
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), output_(std::move(other.output_)), name_(std::move(other.name_)) {}

Child::~Child() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

Status Child::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return failure(Code::kUnavailable, "{} {}:\n{}", name_, remote::describe_status(status), tail_of(output_.get()));
}

}  // namespace xoe::bench

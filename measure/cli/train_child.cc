#include "measure/cli/train_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/random_token.h"
#include "core/base/text.h"
#include "launch/remote/shell.h"
#include "launch/remote/spawn.h"
#include "measure/cli/words.h"

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

std::vector<std::string> words_of(const TrainChildOptions& options, const std::string& output) {
  std::vector<std::string> words = {program_beside("xoe"), "run", "--no-panel", "-np", fmt::to_string(options.ranks)};
  words.emplace_back("-H");
  words.push_back(options.hosts.empty() ? fmt::format("localhost:{}", options.ranks) : options.hosts);
  words.insert(words.end(), {program_beside("xoe-bench"), "train", "--output", output});
  words.insert(words.end(), options.flags.begin(), options.flags.end());
  return words;
}

}  // namespace

Result<TrainChild> TrainChild::start(const TrainChildOptions& options) {
  XOE_ASSIGN(const std::string token, random_token());
  std::error_code ignored;
  std::string output = std::filesystem::temp_directory_path(ignored) / fmt::format("xoe-bench-{}.result", token);
  const std::vector<std::string> words = words_of(options, output);
  Fd log(::memfd_create("xoe-bench-output", MFD_CLOEXEC));
  Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!log.valid() || !nothing.valid())
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
    ::dup2(log.get(), STDOUT_FILENO);
    ::dup2(log.get(), STDERR_FILENO);
    ::execve(arguments[0], arguments.data(), environment.data());
    ::_exit(127);
  }
  return TrainChild(pid, std::move(log), remote::shell_line(words), std::move(output));
}

TrainChild::TrainChild(TrainChild&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      log_(std::move(other.log_)),
      name_(std::move(other.name_)),
      output_(std::move(other.output_)) {}

TrainChild::~TrainChild() {
  if (pid_ > 0) {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  if (!output_.empty()) std::filesystem::remove(output_, ignored);
}

Result<TrainResult> TrainChild::finish() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return read_train_result(output_);
  return failure(Code::kUnavailable, "{} {}:\n{}", name_, remote::describe_status(status), tail_of(log_.get()));
}

}  // namespace xoe::bench

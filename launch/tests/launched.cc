#include "launch/tests/launched.h"
#include "core/testing/places.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>

namespace xoe::launch {
namespace {

// Empty when the process is gone, or goes while it is read.
std::string proc_file(pid_t pid, const std::string& name) {
  const Fd fd(::open(("/proc/" + std::to_string(pid) + "/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> chunk;
  ssize_t count = 0;
  while (fd.valid() && (count = ::read(fd.get(), chunk.data(), chunk.size())) > 0)
    text.append(chunk.data(), static_cast<std::size_t>(count));
  return text;
}

}  // namespace

struct Launched::Collected {
  explicit Collected(Fd end) : pipe(std::move(end)) {
    thread = std::jthread([this] {
      std::array<char, 65536> chunk;
      ssize_t count = 0;
      while ((count = ::read(pipe.get(), chunk.data(), chunk.size())) > 0) {
        const std::scoped_lock lock(mutex);
        text.append(chunk.data(), static_cast<std::size_t>(count));
      }
    });
  }
  std::string now() {
    const std::scoped_lock lock(mutex);
    return text;
  }
  Fd pipe;
  std::mutex mutex;
  std::string text;
  std::jthread thread;
};

std::string xoe_path() { return built_command("xoe"); }

Launched::Launched(std::vector<std::string> arguments, Input input) {
  static std::atomic<int> count = 0;
  mark_ = "XOE_TEST_MARK=" + std::to_string(::getpid()) + "." + std::to_string(count++);
  std::vector<std::string> environment{mark_};
  for (char** entry = ::environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  arguments.insert(arguments.begin(), xoe_path());

  std::array<std::array<int, 2>, 3> pipes{};
  for (auto& pipe : pipes) EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  input_ = Fd(pipes[0][1]);
  const Fd child_ends[] = {Fd(pipes[0][0]), Fd(pipes[1][1]), Fd(pipes[2][1])};
  if (input == Input::kNothing) end_input();

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (int i = 0; i < 3; ++i) posix_spawn_file_actions_adddup2(&actions, child_ends[i].get(), i);
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (auto& variable : environment) envp.push_back(variable.data());
  envp.push_back(nullptr);
  const int failed = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data());
  EXPECT_EQ(failed, 0) << arguments[0];
  if (failed != 0) pid_ = -1;
  posix_spawn_file_actions_destroy(&actions);
  out_ = std::make_unique<Collected>(Fd(pipes[1][0]));
  err_ = std::make_unique<Collected>(Fd(pipes[2][0]));
}

Launched::~Launched() {
  if (!waited_) {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const pid_t left : processes()) ::kill(left, SIGKILL);
}

// A pid of -1 would be everybody.
void Launched::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

void Launched::type(const std::string& text) const {
  EXPECT_EQ(::write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

std::string Launched::out() const { return out_->now(); }

bool Launched::wait_for_out(const std::string& text) const {
  return eventually([&] { return out().find(text) != std::string::npos; });
}

Finished Launched::wait() {
  int status = 0;
  EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
  waited_ = true;
  out_->thread.join();
  err_->thread.join();
  return {
      .code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), .out = out_->text, .err = err_->text};
}

std::vector<pid_t> Launched::processes() const {
  std::vector<pid_t> found;
  DIR* proc = ::opendir("/proc");
  while (const dirent* entry = ::readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0 || pid == pid_ || state_of(pid) == 'Z') continue;
    const std::string environment = proc_file(pid, "environ");
    if (environment.find(mark_ + '\0') != std::string::npos) found.push_back(pid);
  }
  ::closedir(proc);
  return found;
}

bool Launched::all_gone(std::chrono::milliseconds timeout) const {
  return eventually([this] { return processes().empty(); }, timeout);
}

std::vector<std::string> script_arguments(int size, const std::string& script,
                                          const std::vector<std::string>& options) {
  std::vector<std::string> arguments{"run", "-np", std::to_string(size)};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"bash", "-c", script});
  return arguments;
}

Finished run_script(int size, const std::string& script, const std::vector<std::string>& options) {
  Launched job(script_arguments(size, script, options));
  Finished finished = job.wait();
  EXPECT_TRUE(job.all_gone());
  return finished;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

char state_of(pid_t pid) {
  const std::string stat = proc_file(pid, "stat");
  const auto close = stat.rfind(')');
  return close == std::string::npos || close + 2 >= stat.size() ? '\0' : stat[close + 2];
}

}  // namespace xoe::launch

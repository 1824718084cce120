#include "core/tests/kill/job.h"
#include "core/testing/places.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace xoe::testing {
namespace {

std::string environment_of(const std::filesystem::path& process) {
  std::ifstream file(process / "environ", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int kill_rounds(int usual) {
  const char* value = std::getenv("XOE_KILL_ROUNDS");
  return value == nullptr ? usual : std::max(1, std::atoi(value));
}

Job::Job(int ranks, const std::vector<std::string>& command) {
  static int jobs = 0;
  marker_ = "XOE_TEST_MARKER=" + std::to_string(::getpid()) + "." + std::to_string(jobs++) + ";";
  std::vector<std::string> words{built_command("xoe"), "run", "-np", std::to_string(ranks), "--tag-output"};
  words.insert(words.end(), command.begin(), command.end());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  launcher_ = ::fork();
  if (launcher_ == 0) {
    ::setpgid(0, 0);
    ::dup2(ends[1], 1);
    ::dup2(ends[1], 2);
    const auto equals = marker_.find('=');
    ::setenv(marker_.substr(0, equals).c_str(), marker_.substr(equals + 1).c_str(), 1);
    // Its leak check at exit hangs now and then when a process was signalled meanwhile; other tests look for leaks.
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  pipe_ = ends[0];
}

Job::~Job() {
  if (launcher_ > 0) {
    ::kill(launcher_, SIGKILL);
    ::waitpid(launcher_, nullptr, 0);
  }
  ::close(pipe_);
}

bool Job::read_more(double until) {
  const auto milliseconds = static_cast<int>(std::max(0.0, until - now_seconds()) * 1000);
  pollfd polled{pipe_, POLLIN, 0};
  if (::poll(&polled, 1, milliseconds) <= 0) return false;
  char buffer[4096];
  const auto got = ::read(pipe_, buffer, sizeof buffer);
  if (got <= 0) return false;
  output_.append(buffer, static_cast<std::size_t>(got));
  return true;
}

std::string Job::read_until(const std::string& text, double seconds) {
  const double until = now_seconds() + seconds;
  do {
    const auto at = output_.find(text);
    const auto end = at == std::string::npos ? at : output_.find('\n', at);
    if (end == std::string::npos) continue;
    const auto before = output_.rfind('\n', at);
    const auto begin = before == std::string::npos ? 0 : before + 1;
    return output_.substr(begin, end - begin);
  } while (read_more(until));
  return "";
}

bool Job::read_all(double seconds) {
  const double until = now_seconds() + seconds;
  while (read_more(until)) {
  }
  return now_seconds() < until;
}

std::vector<std::string> Job::lines_of(int rank) const {
  const std::string tag = "[" + std::to_string(rank) + "] ";
  std::vector<std::string> lines;
  std::istringstream text(output_);
  for (std::string line; std::getline(text, line);)
    if (line.starts_with(tag)) lines.push_back(line.substr(tag.size()));
  return lines;
}

int Job::wait() {
  int status = 0;
  ::waitpid(launcher_, &status, 0);
  launcher_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Those of the job whose environment has `variable`, "NAME=value".
std::vector<pid_t> Job::processes_with(const std::string& variable) const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c); })) continue;
    const auto environment = '\0' + environment_of(entry.path());
    if (environment.find('\0' + marker_ + '\0') != std::string::npos &&
        environment.find('\0' + variable + '\0') != std::string::npos)
      found.push_back(std::stoi(name));
  }
  return found;
}

pid_t Job::rank_pid(int rank) const {
  const auto found = processes_with("XOE_RANK=" + std::to_string(rank));
  return found.size() == 1 ? found.front() : -1;
}

std::vector<pid_t> Job::left_after(double seconds) const {
  const double until = now_seconds() + seconds;
  while (true) {
    auto left = processes_with(marker_);
    if (left.empty() || now_seconds() > until) return left;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::vector<std::string> files_in_dev_shm() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    // Tests with an MPI, with PyTorch's loaders and with folders there may run at the same time, and benchmarks.
    constexpr const char* kOthers[] = {"vader_segment", "sm_segment", "mpich_shm", "torch_", "xoe-bench-", "xoe-test-"};
    const bool others =
        std::ranges::any_of(kOthers, [&](const char* beginning) { return name.starts_with(beginning); });
    if (!others) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace xoe::testing

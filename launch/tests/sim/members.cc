#include "launch/tests/sim/members.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "core/base/text.h"
#include "launch/tests/sim/programs.h"

namespace xoe::launch::sim_tests {

Flags* const flags = new Flags;

namespace {

using namespace std::chrono_literals;

constexpr sim::Time kLongest = 600 * sim::kSecond;
const std::string kSecret = write_secret();  // before there is a simulation
constexpr std::size_t kTime = 10;            // characters before each line of a host's output

void write_line(int fd, const std::string& text) {
  const std::string line = text + "\n";
  if (::write(fd, line.data(), line.size()) != std::ssize(line)) std::_Exit(9);
}

std::string variable(const char* name, const char* otherwise = "") {
  const char* const value = ::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::string rank() { return variable("XOE_RANK"); }
bool is_chosen() { return rank() == variable("CHOSEN", "none"); }

int wait_for_signals() {
  while (true) std::this_thread::sleep_for(1000s);
}

int tells_place(int, char**) {
  const auto of = [](const char* a, const char* b) { return fmt::format("{}/{}", variable(a), variable(b)); };
  write_line(STDOUT_FILENO, fmt::format("{} {} {}", of("XOE_RANK", "XOE_SIZE"), of("XOE_LOCAL_RANK", "XOE_LOCAL_SIZE"),
                                        of("XOE_CROSS_RANK", "XOE_CROSS_SIZE")));
  return 0;
}

int stays(int, char**) {
  write_line(STDOUT_FILENO, "ready " + rank());
  return wait_for_signals();
}

// As a training that saves its state and leaves when it is asked.
int saves(int, char**) {
  static volatile sig_atomic_t asked = 0;
  ::signal(SIGTERM, [](int) { asked = 1; });
  write_line(STDOUT_FILENO, "ready " + rank());
  while (asked == 0) std::this_thread::sleep_for(50ms);
  std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(variable("SLOW", "0").c_str())));
  write_line(STDOUT_FILENO, "saved " + rank());
  return std::atoi(variable("CODE", "0").c_str());
}

int ignores_signals(int, char**) {
  ::signal(SIGTERM, SIG_IGN);
  return stays(0, nullptr);
}

int fails(int, char**) {
  if (!is_chosen()) return wait_for_signals();
  write_line(STDERR_FILENO, "no such layer");
  return 3;
}

int crashes(int, char**) {
  if (is_chosen()) ::kill(::getpid(), SIGSEGV);
  return wait_for_signals();
}

int fails_once(int, char**) {
  if (rank() == "1" && !flags->failed_once) {
    flags->failed_once = true;
    return 9;
  }
  flags->goes_again = flags->goes_again || rank() == "1";
  while (!flags->goes_again) std::this_thread::sleep_for(50ms);
  write_line(STDOUT_FILENO, "done " + rank());
  return 0;
}

int takes_rounds(int, char**) {
  write_line(STDOUT_FILENO, "round " + rank());
  return flags->go ? 0 : wait_for_signals();
}

}  // namespace

Members::Members(int count) {
  sim::add_program("xoe", &xoe_program);
  for (const auto& [name, program] :
       std::initializer_list<std::pair<const char*, int (*)(int, char**)>>{{"tells_place", &tells_place},
                                                                           {"stays", &stays},
                                                                           {"saves", &saves},
                                                                           {"ignores_signals", &ignores_signals},
                                                                           {"fails", &fails},
                                                                           {"crashes", &crashes},
                                                                           {"fails_once", &fails_once},
                                                                           {"takes_rounds", &takes_rounds}})
    sim::add_program(name, program);
  for (int i = 0; i < count; ++i)
    hosts_.push_back(sim::add_host(fmt::format("h{}", i), fmt::format("10.0.0.{}", i + 1)));
}

void Members::start(int member, const std::string& program, const std::vector<std::string>& options,
                    const std::vector<std::string>& variables) {
  std::vector<std::string> line{"/sim/xoe",       "run",         "--rendezvous",
                                "10.0.0.1:29500", "--node-rank", fmt::format("{}", member)};
  if (std::ranges::find(options, "--nodes") == options.end())
    line.insert(line.end(), {"--nodes", fmt::format("{}", hosts_.size())});
  line.insert(line.end(), options.begin(), options.end());
  for (const std::string& word : split_text("/sim/" + program, ' ')) line.push_back(word);
  std::vector<std::string> all{"PATH=/sim", "HOME=/nowhere", "XOE_RENDEZVOUS_SECRET_FILE=" + kSecret};
  for (const std::string& one : variables) {
    std::erase_if(all, [&](const auto& other) { return other.starts_with(one.substr(0, one.find('=') + 1)); });
    all.push_back(one);
  }
  pids_[member] = host(member).start(line, all);
}

void Members::start_all(const std::string& program, const std::vector<std::string>& options,
                        const std::vector<std::string>& variables) {
  for (int member = 0; member < std::ssize(hosts_); ++member) start(member, program, options, variables);
}

int Members::code(int member) const {
  const pid_t pid = pids_.at(member);
  EXPECT_TRUE(sim::wait_for_end(pid, kLongest)) << "member " << member << " makes no end:\n" << said(member);
  const int status = sim::facts_of(pid).status;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::vector<int> Members::codes() const {
  std::vector<int> all;
  for (const auto& [member, pid] : pids_) all.push_back(code(member));
  return all;
}

std::string Members::said(int member) const {
  std::string all;
  for (const std::string& line : split_text(host(member).output(), '\n'))
    if (line.size() >= kTime) all += line.substr(kTime) + "\n";
  return all;
}

void Members::says(int member, const std::string& text) const {
  const sim::Time until = sim::now() + kLongest;
  while (said(member).find(text) == std::string::npos && sim::now() < until) sim::sleep_for(10 * sim::kMilli);
  EXPECT_NE(said(member).find(text), std::string::npos) << "member " << member << " says:\n" << said(member);
}

void Members::all_say(const std::string& text) const {
  for (const auto& [member, pid] : pids_) says(member, text);
}

bool Members::all_gone() const {
  const sim::Time until = sim::now() + 10 * sim::kSecond;
  while (!sim::running().empty() && sim::now() < until) sim::sleep_for(10 * sim::kMilli);
  return sim::running().empty();
}

}  // namespace xoe::launch::sim_tests

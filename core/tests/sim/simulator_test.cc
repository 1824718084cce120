// The simulator itself: that it is the same for one seed, and that its hosts behave as hosts do.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "core/testing/sim/simulation.h"

namespace {

using namespace xoe;
using namespace std::chrono_literals;

// Each case is a process of its own, as seeds are: a simulation is never undone.
int failures = 0;
std::string case_name;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  std::printf("%s: %s\n", case_name.c_str(), what.c_str());
}

// What the scenario says, from a process that ends with it. Empty: it died.
std::string simulated(const sim::Options& options, const std::function<std::string()>& scenario) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::string said;
    sim::simulate(options, [&] {
      said = scenario();
      return 0;
    });
    if (::write(ends[1], said.data(), said.size()) != std::ssize(said)) ::_exit(1);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said;
  char bytes[4096];
  for (ssize_t count; (count = ::read(ends[0], bytes, sizeof bytes)) > 0;)
    said.append(bytes, static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status == 0 ? said : "";
}

sockaddr_in at(const char* host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

// Accepts one connection and writes what comes, until its end.
int receive(int, char**) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  const auto here = at("0.0.0.0", 7000);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0 || ::listen(listener, 4) != 0)
    return 1;
  const int client = ::accept(listener, nullptr, nullptr);
  char bytes[100];
  ssize_t count = 0;
  while ((count = ::read(client, bytes, sizeof bytes)) > 0)
    if (::write(STDOUT_FILENO, bytes, static_cast<std::size_t>(count)) != count) return 2;
  return count == 0 ? 0 : 3;
}

// Sends the numbers 0 to 99 to it, one each 10 ms.
int transmit(int, char** argv) {
  const int peer = ::socket(AF_INET, SOCK_STREAM, 0);
  const auto there = at(argv[1], 7000);
  while (::connect(peer, reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0)
    std::this_thread::sleep_for(1ms);
  for (int i = 0; i < 100; ++i) {
    const std::string number = fmt::format("{} ", i);
    if (::send(peer, number.data(), number.size(), MSG_NOSIGNAL) != std::ssize(number)) return 1;
    std::this_thread::sleep_for(10ms);
  }
  return 0;
}

// Of all output without the times before its lines.
std::string numbers(const std::string& output) { return output.substr(std::min<std::size_t>(output.size(), 10)); }

std::string all_numbers() {
  std::string all;
  for (int i = 0; i < 100; ++i) all += fmt::format("{} ", i);
  return all;
}

std::string stream_scenario(sim::Time cut_for) {
  sim::add_program("receive", &receive);
  sim::add_program("transmit", &transmit);
  const auto a = sim::add_host("a", "10.0.0.1"), b = sim::add_host("b", "10.0.0.2");
  const pid_t receiver = b.start({"/sim/receive"});
  a.start({"/sim/transmit", "10.0.0.2"});
  sim::sleep_for(500 * sim::kMilli);
  if (cut_for > 0) {
    sim::cut_link(a, b, true);
    sim::sleep_for(cut_for);
    sim::cut_link(a, b, false);
  }
  const bool ended = sim::wait_for_end(receiver, 60 * sim::kSecond);
  return fmt::format("{} {} {:x} {}", ended, sim::facts_of(receiver).status, sim::digest(), numbers(b.output()));
}

void seeds_repeat() {
  const auto once = [](std::uint64_t seed) { return simulated({.seed = seed}, [] { return stream_scenario(0); }); };
  expect(!once(1).empty(), "the simulation dies");
  expect(once(1) == once(1), "one seed differs from itself");
  expect(once(1) != once(2), "two seeds are the same");
}

void streams_keep_their_order() {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const auto said = simulated({.seed = seed, .short_read = 0.5}, [] { return stream_scenario(3 * sim::kSecond); });
    expect(said.starts_with("true 0 ") && said.ends_with(all_numbers()), fmt::format("seed {}: {}", seed, said));
  }
}

void a_killed_process_closes_its_connections() {
  const auto said = simulated({.seed = 3}, [] {
    sim::add_program("receive", &receive);
    sim::add_program("transmit", &transmit);
    const auto a = sim::add_host("a", "10.0.0.1"), b = sim::add_host("b", "10.0.0.2");
    const pid_t receiver = b.start({"/sim/receive"});
    const pid_t sender = a.start({"/sim/transmit", "10.0.0.2"});
    sim::sleep_for(500 * sim::kMilli);
    sim::signal_process(sender, SIGKILL);
    const sim::Time killed = sim::now();
    const bool ended = sim::wait_for_end(receiver, 60 * sim::kSecond);
    return fmt::format("{} {} {} {}", ended, sim::now() - killed < 10 * sim::kMilli, sim::facts_of(sender).status,
                       sim::running().size());
  });
  expect(said == fmt::format("true true {} 0", SIGKILL), said);
}

void a_host_that_is_switched_off_is_silent() {
  const auto said = simulated({.seed = 4}, [] {
    sim::add_program("receive", &receive);
    sim::add_program("transmit", &transmit);
    const auto a = sim::add_host("a", "10.0.0.1"), b = sim::add_host("b", "10.0.0.2");
    const pid_t receiver = b.start({"/sim/receive"});
    a.start({"/sim/transmit", "10.0.0.2"});
    sim::sleep_for(500 * sim::kMilli);
    a.switch_off();
    return fmt::format("{}", sim::wait_for_end(receiver, 3600 * sim::kSecond));
  });
  expect(said == "false", said);
}

int sleeper(int, char**) {
  const auto before = std::chrono::steady_clock::now();
  const auto wall = std::chrono::system_clock::now();
  std::this_thread::sleep_for(2h);
  const auto slept = std::chrono::steady_clock::now() - before;
  const auto shown = std::chrono::system_clock::now() - wall;
  return slept >= 2h && slept < 2h + 1s && shown < 1h + 1s ? 0 : 1;
}

void clocks_are_virtual_and_jump() {
  const auto said = simulated({.seed = 5}, [] {
    sim::add_program("sleeper", &sleeper);
    const auto a = sim::add_host("a", "10.0.0.1");
    const pid_t pid = a.start({"/sim/sleeper"});
    sim::sleep_for(60 * sim::kSecond);
    a.jump(-3600 * sim::kSecond);
    const bool ended = sim::wait_for_end(pid, 10000 * sim::kSecond);
    return fmt::format("{} {}", ended, sim::facts_of(pid).status);
  });
  expect(said == "true 0", said);
}

int plain_global = 0;

// Four threads count under a lock and wait for each other; each process has a variable of its own.
int counter(int, char**) {
  std::mutex mutex;
  std::condition_variable all_there;
  std::atomic<int> late = 0;
  int there = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const std::lock_guard lock(mutex);
        const int seen = plain_global;
        if (i % 10 == 0) std::this_thread::sleep_for(1us);
        plain_global = seen + 1;
      }
      std::unique_lock lock(mutex);
      if (++there == 4) all_there.notify_all();
      all_there.wait(lock, [&] { return there == 4; });
      lock.unlock();
      late.fetch_add(1);
      late.notify_all();
    });
  for (int seen = late; seen < 4; seen = late) late.wait(seen);
  for (std::thread& thread : threads) thread.join();
  return plain_global == 400 ? 0 : 1;
}

void threads_take_turns_and_processes_share_no_data() {
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    const auto said = simulated({.seed = seed, .preempt = 0.3}, [] {
      sim::add_program("counter", &counter);
      const auto a = sim::add_host("a", "10.0.0.1");
      const pid_t one = a.start({"/sim/counter"}), other = a.start({"/sim/counter"});
      const bool ended = sim::wait_for_end(one, sim::kSecond) && sim::wait_for_end(other, sim::kSecond);
      return fmt::format("{} {} {}", ended, sim::facts_of(one).status, sim::facts_of(other).status);
    });
    expect(said == "true 0 0", fmt::format("seed {}: {}", seed, said));
  }
}

}  // namespace

int main(int, char** argv) {
  sim::fix_addresses(argv);
  const std::pair<const char*, void (*)()> cases[] = {
      {"seeds_repeat", &seeds_repeat},
      {"streams_keep_their_order", &streams_keep_their_order},
      {"a_killed_process_closes_its_connections", &a_killed_process_closes_its_connections},
      {"a_host_that_is_switched_off_is_silent", &a_host_that_is_switched_off_is_silent},
      {"clocks_are_virtual_and_jump", &clocks_are_virtual_and_jump},
      {"threads_take_turns_and_processes_share_no_data", &threads_take_turns_and_processes_share_no_data}};
  for (const auto& [name, run] : cases) {
    case_name = name;
    run();
  }
  std::printf("%zu cases, %d failures\n", std::size(cases), failures);
  return failures == 0 ? 0 : 1;
}

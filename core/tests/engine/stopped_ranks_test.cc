// Ranks that are stopped, or compute for long, while the others wait for them: on one host and on several.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/tests/comm/process_group.h"
#include "core/tests/engine/engines.h"
#include "core/tests/engine/warnings.h"

namespace xoe::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::string run_barrier(Engine& engine, std::string_view name) {
  const Status met = engine.run({.name = name, .op = {.kind = OpKind::kBarrier}});
  return met ? "" : met.error().to_string();
}

std::string missing_part(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    if (text.find(part) == std::string::npos) return fmt::format("'{}' is not in: {}", part, text);
  return "";
}

// For the ranks of a group, which are processes.
std::atomic<int>* shared_count() {
  void* const memory =
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : ::new (memory) std::atomic<int>(0);
}

// The last rank stops before it submits 'late'; another one lets it go on when all others have been told.
std::string meet_without_the_last(Communicator& communicator, std::vector<int> pids, std::atomic<int>* told_ranks) {
  const int last = communicator.size() - 1;
  Warnings warnings;
  EngineOptions options = quiet_options();
  options.stall_warning = 200ms;
  options.stall_limit = 2s;
  options.warn = warnings.listener();
  const int rank = communicator.rank();
  auto engine = Engine::create(std::move(communicator), options).value();
  if (const std::string problem = run_barrier(*engine, "start"); !problem.empty()) return problem;
  if (rank == last) {
    ::raise(SIGSTOP);
    // It is the last one to submit 'late', which may complete here; the next one cannot.
    std::string problem = run_barrier(*engine, "late");
    if (problem.empty()) problem = run_barrier(*engine, "after it");
    return problem.empty() ? "no error" : "";
  }
  const auto began = Clock::now();
  const std::string told = run_barrier(*engine, "late");
  const auto took = Clock::now() - began;
  ++*told_ranks;
  if (rank == last - 1) {
    // Ranks that are still waiting would see it complete.
    while (*told_ranks < last) std::this_thread::sleep_for(1ms);
    ::kill(pids[static_cast<std::size_t>(last)], SIGCONT);
  }
  if (took < 1900ms) return fmt::format("told after {} ms", took / 1ms);
  // Over several hosts the first report counts, also from a host that knows less.
  const bool one_host = engine->topology().local_size == engine->topology().size;
  const std::string who =
      fmt::format("rank {} ({}", last, one_host ? "last submitted 'start' there; its process is stopped" : "");
  if (const std::string problem =
          missing_part(told, {"timeout", "'late'", who, "its process is stopped", "XOE_STALL_LIMIT"});
      !problem.empty())
    return problem;
  if (rank != last - 1) return "";
  const auto lines = warnings.lines();
  if (lines.empty()) return "no warning";  // how many there are is a matter of the machine's load
  return missing_part(lines.back(), {"'late'", who});
}

std::vector<int> exchange_pids(Communicator& communicator) {
  std::vector<int> pids(static_cast<std::size_t>(communicator.size()));
  const int mine = ::getpid();
  EXPECT_TRUE(communicator.allgather(ConstTensor(&mine, 1), Tensor(pids.data(), pids.size())));
  return pids;
}

// A rank that computes for several limits is waited for, one that sleeps is not.
std::string wait_for_a_worker(Communicator& communicator) {
  const int last = communicator.size() - 1;
  EngineOptions options = quiet_options();
  options.stall_warning = 0s;
  options.stall_limit = 4s;
  auto engine = Engine::create(std::move(communicator), options).value();
  if (const std::string problem = run_barrier(*engine, "start"); !problem.empty()) return problem;
  if (engine->topology().rank == last) {
    volatile double value = 1;
    for (const auto until = Clock::now() + 9s; Clock::now() < until;) value = value * 1.000001;
    return run_barrier(*engine, "late");
  }
  return run_barrier(*engine, "late");
}

const std::vector<int> kOneHost{0, 0, 0};
const std::vector<int> kTwoHosts{0, 0, 1, 1};

TEST(StoppedRanks, AreNamedOnOneHost) {
  auto* const told_ranks = shared_count();
  ProcessGroup(3, [told_ranks](Communicator& communicator) {
    return meet_without_the_last(communicator, exchange_pids(communicator), told_ranks);
  }).expect_success();
}

// The ranks of the other host learn it from those beside the stopped one.
TEST(StoppedRanks, AreNamedOverSeveralHosts) {
  auto* const told_ranks = shared_count();
  ProcessGroup group(kTwoHosts, [told_ranks](Communicator& communicator) -> std::string {
    const int rank = communicator.rank();
    const auto pids = exchange_pids(communicator);
    if (rank >= 2) return meet_without_the_last(communicator, pids, told_ranks);
    EngineOptions options = quiet_options();
    options.stall_limit = 2s;
    auto engine = Engine::create(std::move(communicator), options).value();
    if (const std::string problem = run_barrier(*engine, "start"); !problem.empty()) return problem;
    const std::string told = run_barrier(*engine, "late");
    ++*told_ranks;
    return missing_part(told, {"timeout", "'late'", "rank 3"});
  });
  group.expect_success();
}

TEST(WorkingRanks, AreSparedOnOneHost) { ProcessGroup(2, wait_for_a_worker).expect_success(); }

TEST(WorkingRanks, AreSparedOverSeveralHosts) {
  ProcessGroup({0, 0, 1}, wait_for_a_worker).expect_success();
  ProcessGroup({0, 1, 1}, wait_for_a_worker).expect_success();
}

// The same for a communicator: a rank that waits says whom for, and gives up when XOE_TIMEOUT is over.
TEST(StoppedRanks, AreNamedByCommunicators) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const int own_stderr = ::dup(STDERR_FILENO);
  ASSERT_EQ(::dup2(told[1], STDERR_FILENO), STDERR_FILENO);
  ProcessGroup(2,
               [](Communicator& communicator) -> std::string {
                 const auto pids = exchange_pids(communicator);
                 if (communicator.rank() == 1) {
                   ::raise(SIGSTOP);
                   return communicator.barrier() ? "no error" : "";
                 }
                 const Status met = communicator.barrier({.name = "end of epoch"});
                 ::kill(pids[1], SIGCONT);
                 return met ? "no error"
                            : missing_part(met.error().to_string(),
                                           {"timeout", "end of epoch", fmt::format("for rank 1 (pid {})", pids[1]),
                                            "is stopped"});
               },
               {{"XOE_STALL_WARNING", "0.2"}, {"XOE_TIMEOUT", "1.5"}})
      .expect_success();
  ASSERT_EQ(::dup2(own_stderr, STDERR_FILENO), STDERR_FILENO);
  ::close(own_stderr);
  char text[4096] = {};
  ASSERT_GT(::read(told[0], text, sizeof text - 1), 0);
  EXPECT_EQ(missing_part(text, {"xoe: barrier", "end of epoch", "for rank 1 (pid", "its process is stopped"}), "");
}

}  // namespace
}  // namespace xoe::testing

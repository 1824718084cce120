// A rank that is stopped while it writes the result of a collective into its peers' memory, and let go after they have
// been told of the failure.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <functional>
#include <new>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/tests/comm/process_group.h"

namespace xoe::testing {
namespace {

constexpr std::size_t kCount = std::size_t{1} << 20;  // floats: several rounds
constexpr float kMine = -7;

// What the ranks, processes, tell each other.
struct Shared {
  std::atomic<int> stopped_pid = 0;
  std::atomic<bool> told = false;  // of the failure
  std::atomic<bool> ended = false;
};

Shared* make_shared_memory() {
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : ::new (memory) Shared;
}

struct Trap {
  void* data = nullptr;
  std::size_t bytes = 0;
  Shared* shared = nullptr;
} trap;

// The first touch of the trap stops the process, there.
void stop_here(int /*signal*/) {
  ::mprotect(trap.data, trap.bytes, PROT_READ | PROT_WRITE);
  trap.shared->stopped_pid = ::getpid();
  ::raise(SIGSTOP);
}

template <class Condition>
bool await(Condition&& condition) {
  for (int turn = 0; turn < 20'000 && !condition(); ++turn) ::usleep(1000);
  return condition();
}

// The rank that is stopped, whose own input from element `from` on is the trap.
std::string stop_in(Communicator& communicator, float* in, std::size_t from, Shared* shared,
                    const std::function<Status()>& call) {
  trap = {.data = in + from, .bytes = (kCount - from) * sizeof(float), .shared = shared};
  struct sigaction action {};
  action.sa_handler = stop_here;
  ::sigaction(SIGSEGV, &action, nullptr);
  ::mprotect(trap.data, trap.bytes, PROT_NONE);
  // With its part it may have been the last one: then it has the result, and learns of the failure from the next call.
  [[maybe_unused]] const Status status = call();
  shared->ended = true;
  return communicator.barrier() ? "no error" : "";
}

std::string first_other(const float* values, std::size_t count, float expected) {
  const float* const end = values + count;
  const float* const other = std::find_if(values, end, [=](float value) { return value != expected; });
  return other == end ? "" : fmt::format("[{}] is {}", other - values, *other);
}

// Of the rank whose `out` the stopped one writes to.
std::string check_after_failure(Communicator& communicator, SharedBuffer& out, Shared* shared,
                                const std::function<Status()>& call) {
  const Status status = call();
  if (status) return "no error";
  if (status.error().code() != Code::kTimeout) return status.error().to_string();
  if (!await([&] { return shared->stopped_pid != 0; })) return "the writer was not stopped";
  std::fill_n(out.as<float>().data(), kCount, kMine);
  // Memory that is given back must not become a new buffer either.
  SharedBuffer next = communicator.shared_buffer(out.bytes()).value();
  std::fill_n(next.as<float>().data(), kCount, kMine);
  ::kill(shared->stopped_pid, SIGCONT);
  if (!await([&] { return shared->ended.load(); })) return "the writer did not go on";
  if (const auto problem = first_other(out.as<float>().data(), kCount, kMine); !problem.empty())
    return "the output was written to after the failure: " + problem;
  const std::byte* const before = out.data();
  out = {};
  SharedBuffer third = communicator.shared_buffer(kCount * sizeof(float)).value();
  if (third.data() == before) return "memory that a stopped rank knows became a new buffer";
  return first_other(third.as<float>().data(), kCount, 0);
}

constexpr OpOptions kSoon{.timeout = std::chrono::seconds(2)};

TEST(StoppedWriter, OfASumDoesNotWriteIntoMemoryThatItsOwnerWasToldIsFree) {
  Shared* const shared = make_shared_memory();
  ProcessGroup(2, [=](Communicator& communicator) -> std::string {
    SharedBuffer in = communicator.shared_buffer(kCount * sizeof(float)).value();
    SharedBuffer out = communicator.shared_buffer(kCount * sizeof(float)).value();
    std::fill_n(in.as<float>().data(), kCount, 1.0F);
    const ConstTensor from(in.as<float>().data(), kCount);
    const Tensor to(out.as<float>().data(), kCount);
    if (auto met = communicator.barrier(); !met) return met.error().to_string();
    if (communicator.rank() == 0)
      return check_after_failure(communicator, out, shared,
                                 [&] { return communicator.allreduce(from, to, ReduceOp::kSum, kSoon); });
    return stop_in(communicator, in.as<float>().data(), 0, shared, [&] { return communicator.allreduce(from, to); });
  }).expect_success();
}

TEST(StoppedWriter, OfABroadcastDoesNotWriteIntoMemoryThatItsOwnerWasToldIsFree) {
  Shared* const shared = make_shared_memory();
  ProcessGroup(2, [=](Communicator& communicator) -> std::string {
    SharedBuffer data = communicator.shared_buffer(kCount * sizeof(float)).value();
    std::fill_n(data.as<float>().data(), kCount, 1.0F);
    const Tensor tensor(data.as<float>().data(), kCount);
    if (auto met = communicator.barrier(); !met) return met.error().to_string();
    if (communicator.rank() == 0)
      return check_after_failure(communicator, data, shared, [&] { return communicator.broadcast(tensor, 1, kSoon); });
    // The other one fetches the first half itself.
    return stop_in(communicator, data.as<float>().data(), kCount / 2, shared,
                   [&] { return communicator.broadcast(tensor, 1); });
  }).expect_success();
}

// Rank 0 starts a collective and then computes; rank 1 is stopped while it writes, of which rank 2 tells.
void expect_nothing_written_to_who_has_only_started(bool sum) {
  Shared* const shared = make_shared_memory();
  ProcessGroup(3, [=](Communicator& communicator) -> std::string {
    SharedBuffer in = communicator.shared_buffer(kCount * sizeof(float)).value();
    SharedBuffer out = communicator.shared_buffer(kCount * sizeof(float)).value();
    const ConstTensor from(in.as<float>().data(), kCount);
    const Tensor to(out.as<float>().data(), kCount);
    if (auto met = communicator.barrier(); !met) return met.error().to_string();
    if (communicator.rank() == 0) {
      Handle handle =
          sum ? communicator.start_allreduce(from, to).value() : communicator.start_broadcast(to, 1).value();
      if (!await([&] { return shared->told.load(); })) return "the failure was not told";
      return check_after_failure(communicator, out, shared, [&] { return handle.wait(); });
    }
    ::usleep(200'000);  // after rank 0
    if (communicator.rank() == 2) {
      const Status status =
          sum ? communicator.allreduce(from, to, ReduceOp::kSum, kSoon) : communicator.broadcast(to, 1, kSoon);
      shared->told = true;
      return status || !await([&] { return shared->ended.load(); }) ? "no error, or the writer did not go on" : "";
    }
    float* const trapped = sum ? in.as<float>().data() : out.as<float>().data();
    return stop_in(communicator, trapped, kCount / 2, shared,
                   [&] { return sum ? communicator.allreduce(from, to) : communicator.broadcast(to, 1); });
  }).expect_success();
}

TEST(StoppedWriter, DoesNotWriteForWhoHasOnlyStarted) {
  expect_nothing_written_to_who_has_only_started(/*sum=*/true);
  expect_nothing_written_to_who_has_only_started(/*sum=*/false);
}

TEST(StoppedWriter, OfABroadcastAloneIsNamed) {
  Shared* const shared = make_shared_memory();
  ProcessGroup(3, [=](Communicator& communicator) -> std::string {
    void* const memory =
        ::mmap(nullptr, kCount * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* const values = static_cast<float*>(memory);
    const Tensor tensor(values, kCount);
    if (auto met = communicator.barrier(); !met) return met.error().to_string();
    if (communicator.rank() == 1)
      return stop_in(communicator, values, kCount / 2, shared, [&] { return communicator.broadcast(tensor, 1); });
    const Status status = communicator.broadcast(tensor, 1, kSoon);
    if (shared->stopped_pid != 0) ::kill(shared->stopped_pid, SIGCONT);
    if (status) return "no error";
    const std::string expected = "for rank 1 (pid " + std::to_string(shared->stopped_pid) + ") (";
    const std::string said = status.error().message();
    const std::size_t at = said.find(" for rank ");
    return at == said.rfind(" rank ") - 4 && said.find(expected) == at + 1 ? "" : said;
  }).expect_success();
}

}  // namespace
}  // namespace xoe::testing

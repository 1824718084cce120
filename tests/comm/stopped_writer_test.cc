// A rank that is stopped while it writes the result of a reduction into its peers' memory, and let go after they have
// been told of the failure.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <new>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/process_group.h"

namespace xoe::testing {
namespace {

constexpr std::size_t kCount = std::size_t{1} << 20;  // floats: several rounds
constexpr float kMine = -7;

// What the ranks, processes, tell each other.
struct Shared {
  std::atomic<int> stopped_pid = 0;
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

// Rank 1, whose own input is the trap: it is stopped where it begins to reduce its part for all ranks.
std::string stop_in_reduction(Communicator& communicator, ConstTensor in, Tensor out, Shared* shared) {
  trap = {.data = const_cast<void*>(in.data), .bytes = in.bytes(), .shared = shared};
  struct sigaction action {};
  action.sa_handler = stop_here;
  ::sigaction(SIGSEGV, &action, nullptr);
  ::mprotect(trap.data, trap.bytes, PROT_NONE);
  // With its part it may have been the last one: then it has the result, and learns of the failure from the next call.
  [[maybe_unused]] const Status status = communicator.allreduce(in, out);
  shared->ended = true;
  return communicator.barrier() ? "no error" : "";
}

std::string first_other(const float* values, std::size_t count, float expected) {
  const float* const end = values + count;
  const float* const other = std::find_if(values, end, [=](float value) { return value != expected; });
  return other == end ? "" : fmt::format("[{}] is {}", other - values, *other);
}

std::string check_after_failure(Communicator& communicator, ConstTensor in, SharedBuffer& out, Shared* shared) {
  const Status status = communicator.allreduce(in, Tensor(out.as<float>().data(), kCount), ReduceOp::kSum,
                                               {.timeout = std::chrono::seconds(2)});
  if (status) return "no error";
  if (status.error().code() != Code::kTimeout) return status.error().to_string();
  if (!await([&] { return shared->stopped_pid != 0; })) return "rank 1 was not stopped in the reduction";
  std::fill_n(out.as<float>().data(), kCount, kMine);
  // Memory that is given back must not become a new buffer either.
  SharedBuffer next = communicator.shared_buffer(out.bytes()).value();
  std::fill_n(next.as<float>().data(), kCount, kMine);
  ::kill(shared->stopped_pid, SIGCONT);
  if (!await([&] { return shared->ended.load(); })) return "rank 1 did not go on";
  if (const auto problem = first_other(out.as<float>().data(), kCount, kMine); !problem.empty())
    return "the output was written to after the failure: " + problem;
  const std::byte* const before = out.data();
  out = {};
  SharedBuffer third = communicator.shared_buffer(kCount * sizeof(float)).value();
  if (third.data() == before) return "memory that a stopped rank knows became a new buffer";
  return first_other(third.as<float>().data(), kCount, 0);
}

TEST(StoppedWriter, DoesNotWriteIntoMemoryThatItsOwnerWasToldIsFree) {
  Shared* const shared = make_shared_memory();
  ProcessGroup(2, [=](Communicator& communicator) -> std::string {
    SharedBuffer in = communicator.shared_buffer(kCount * sizeof(float)).value();
    SharedBuffer out = communicator.shared_buffer(kCount * sizeof(float)).value();
    std::fill_n(in.as<float>().data(), kCount, 1.0F);
    const ConstTensor from(in.as<float>().data(), kCount);
    if (auto met = communicator.barrier(); !met) return met.error().to_string();
    if (communicator.rank() == 0) return check_after_failure(communicator, from, out, shared);
    return stop_in_reduction(communicator, from, Tensor(out.as<float>().data(), kCount), shared);
  }).expect_success();
}

}  // namespace
}  // namespace xoe::testing

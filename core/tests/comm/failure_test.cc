// The errors that a rank returns when others fail, disagree, are late or leave.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <latch>
#include <string>

#include <gmock/gmock.h>

#include "core/testing/told_within.h"
#include "core/tests/comm/process_group.h"
#include "core/tests/comm/shared_time.h"
#include "core/tests/comm/thread_group.h"

namespace xoe::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Rank 1 of a group dies by `die`; the operations that the survivors run meanwhile must fail and name it.
void expect_peer_lost(const std::function<void()>& die, const std::function<Status(Communicator&)>& meanwhile) {
  constexpr int kSize = 3;
  SharedTime death;
  ProcessGroup group(kSize, [&](Communicator& communicator) -> std::string {
    std::vector<int> pids(kSize);
    const int mine = ::getpid();
    if (!communicator.allgather(ConstTensor(&mine, 1), Tensor(pids.data(), kSize))) return "allgather failed";
    if (communicator.rank() == 1) {
      ::usleep(50'000);
      death.is_now();
      die();
    }
    const auto expected = "rank 1 (pid " + std::to_string(pids[1]) + ")";
    const double give_up = now_seconds() + 30;
    Status status;
    while (status && now_seconds() < give_up) status = meanwhile(communicator);
    if (status) return "no error";
    if (death.seconds_ago() > told_within()) return "told after " + std::to_string(death.seconds_ago()) + " s";
    if (status.error().code() != Code::kPeerLost) return "told " + status.error().to_string();
    if (status.error().message().find(expected) == std::string::npos)
      return "message does not name " + expected + ": " + status.error().message();
    const Status later = communicator.barrier();
    if (later || later.error().code() != Code::kPeerLost) return "a later operation did not fail";
    return "";
  });
  EXPECT_EQ(group.wait(0), 0);
  EXPECT_EQ(group.wait(2), 0);
}

Status small_allreduce(Communicator& communicator) {
  float x = 1;
  return communicator.allreduce(Tensor(&x, 1));
}

TEST(PeerLost, KilledDuringSmallAllreduces) {
  expect_peer_lost([] { ::raise(SIGKILL); }, small_allreduce);
}

TEST(PeerLost, ExitedDuringLargeAllreduces) {
  expect_peer_lost([] { ::_exit(0); },
                   [](Communicator& communicator) {
                     std::vector<float> data(1'000'000);
                     return communicator.allreduce(Tensor(data.data(), data.size()));
                   });
}

TEST(PeerLost, SegmentationFaultDuringSharedAllreduces) {
  expect_peer_lost(
      [] {
        std::signal(SIGSEGV, SIG_DFL);
        ::raise(SIGSEGV);
      },
      [](Communicator& communicator) {
        auto buffer = communicator.shared_buffer(4 << 20).value();
        return communicator.allreduce(Tensor(buffer.as<float>().data(), buffer.as<float>().size()));
      });
}

TEST(PeerLost, WhileWaitingForAHandle) {
  expect_peer_lost([] { ::raise(SIGKILL); },
                   [](Communicator& communicator) -> Status {
                     std::vector<float> data(100'000);
                     auto handle = communicator.start_allreduce(Tensor(data.data(), data.size()),
                                                                Tensor(data.data(), data.size()));
                     if (!handle) return failure(handle.error());
                     return handle->wait();
                   });
}

// One that only asks: nothing else tells this rank.
TEST(PeerLost, WhileTestingAHandle) {
  expect_peer_lost([] { ::raise(SIGKILL); },
                   [](Communicator& communicator) -> Status {
                     float x = 1;
                     auto handle = communicator.start_allreduce(Tensor(&x, 1), Tensor(&x, 1));
                     if (!handle) return failure(handle.error());
                     auto done = handle->test();
                     for (const double end = now_seconds() + 30; done && !*done && now_seconds() < end;)
                       done = handle->test();
                     return done ? Status() : failure(done.error());
                   });
}

TEST(PeerLost, InASplitCommunicator) {
  expect_peer_lost([] { ::raise(SIGKILL); },
                   [](Communicator& communicator) -> Status {
                     auto half = communicator.split(0, -communicator.rank());
                     if (!half) return failure(half.error());
                     return small_allreduce(**half);
                   });
}

TEST(PeerLost, NamesWhoEndedFirst) {
  ProcessGroup group(3, [](Communicator& communicator) -> std::string {
    if (!communicator.barrier()) return "barrier failed";
    if (communicator.rank() == 1) ::usleep(300'000);
    if (communicator.rank() != 0) ::_exit(3);
    ::usleep(1'000'000);
    const Status status = communicator.barrier();
    if (status) return "no error";
    return status.error().message().find("rank 2 (pid ") == std::string::npos ? status.error().message() : "";
  });
  EXPECT_EQ(group.wait(0), 0);
}

TEST(PeerLost, MessageNamesTheOperationAndItsTensor) {
  ProcessGroup group(2, [](Communicator& communicator) -> std::string {
    if (communicator.rank() == 1) ::raise(SIGKILL);
    float x = 0;
    const Status status = communicator.allreduce(Tensor(&x, 1), ReduceOp::kSum, {.name = "conv1.weight"});
    if (status) return "no error";
    return status.error().message().find("(conv1.weight): rank 1 (pid ") == std::string::npos ? status.error().message()
                                                                                              : "";
  });
  EXPECT_EQ(group.wait(0), 0);
}

// The ranks make different calls; the errors of both must name both calls.
void expect_mismatch(const std::function<Status(Communicator&)>& first,
                     const std::function<Status(Communicator&)>& second, const std::string& text_of_first,
                     const std::string& text_of_second) {
  run_ranks(2, [&](Communicator& communicator) {
    const Status status = communicator.rank() == 0 ? first(communicator) : second(communicator);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument) << status.error().message();
    EXPECT_THAT(status.error().message(), HasSubstr(text_of_first));
    EXPECT_THAT(status.error().message(), HasSubstr(text_of_second));
    const Status later = communicator.barrier();
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().message(), status.error().message()) << "the first cause is the cause of all";
  });
}

Status allreduce_of(Communicator& communicator, std::size_t count, DType dtype = DType::kFloat32,
                    ReduceOp op = ReduceOp::kSum) {
  std::vector<std::byte> data(count * 8);
  return communicator.allreduce(Tensor(data.data(), count, dtype), op);
}

TEST(Mismatch, Name) {
  const auto named = [](std::string_view name) {
    return [name](Communicator& communicator) {
      float x = 0;
      return communicator.allreduce(Tensor(&x, 1), ReduceOp::kSum, {.name = name});
    };
  };
  expect_mismatch(named("conv1.weight"), named("conv2.weight"), "'conv1.weight'", "'conv2.weight'");
}

TEST(Mismatch, Count) {
  expect_mismatch([](auto& c) { return allreduce_of(c, 1000); }, [](auto& c) { return allreduce_of(c, 999); },
                  "allreduce(float32, sum, 1000 elements)", "allreduce(float32, sum, 999 elements)");
}

TEST(Mismatch, CountAcrossAlgorithms) {
  expect_mismatch([](auto& c) { return allreduce_of(c, 1); }, [](auto& c) { return allreduce_of(c, 10'000'000); },
                  "1 element)", "10000000 elements)");
}

// What a rank remembers of equal calls must not show in a message about another one.
TEST(Mismatch, AfterManyCallsOfOtherKinds) {
  const auto then = [](std::size_t count, std::string_view name) {
    return [count, name](Communicator& c) -> Status {
      float x[4] = {};
      for (const bool sums : {true, false, true, false})
        for (int i = 0; i < 64; ++i) {
          const Status status =
              sums ? c.allreduce(Tensor(x, 2), ReduceOp::kMax) : c.start_broadcast(Tensor(x, 4), 0).value().wait();
          if (!status) return status;
        }
      return c.allreduce(Tensor(x, count), ReduceOp::kMax, {.name = name});
    };
  };
  expect_mismatch(then(2, ""), then(3, ""), "max, 2 elements)", "max, 3 elements)");
  expect_mismatch(then(2, ""), then(2, "named"), "max, 2 elements)", "max, 2 elements) 'named'");
}

TEST(Mismatch, Type) {
  expect_mismatch([](auto& c) { return allreduce_of(c, 10); },
                  [](auto& c) { return allreduce_of(c, 10, DType::kInt32); }, "float32", "int32");
}

TEST(Mismatch, Reduction) {
  expect_mismatch([](auto& c) { return allreduce_of(c, 10); },
                  [](auto& c) { return allreduce_of(c, 10, DType::kFloat32, ReduceOp::kMax); }, "sum", "max");
}

TEST(Mismatch, Collective) {
  expect_mismatch([](auto& c) { return allreduce_of(c, 10); }, [](auto& c) { return c.barrier(); }, "allreduce(float32",
                  "barrier()");
}

TEST(Mismatch, Root) {
  const auto broadcast_from = [](int root) {
    return [root](Communicator& c) {
      float x = 0;
      return c.broadcast(Tensor(&x, 1), root);
    };
  };
  expect_mismatch(broadcast_from(0), broadcast_from(1), "root 0", "root 1");
}

TEST(Mismatch, CountsOfReduceScatter) {
  const auto scatter = [](std::size_t a, std::size_t b) {
    return [a, b](Communicator& c) {
      const std::size_t counts[] = {a, b};
      std::vector<float> in(a + b), out(counts[c.rank()]);
      return c.reduce_scatter(ConstTensor(in.data(), in.size()), Tensor(out.data(), out.size()), counts);
    };
  };
  expect_mismatch(scatter(3, 5), scatter(5, 3), "counts 3 5", "counts 5 3");
}

TEST(Mismatch, SplitsOfAlltoall) {
  run_ranks(2, [](Communicator& c) {
    // Rank 0 sends 3 elements to rank 1, which expects 4.
    const std::size_t send[] = {0, 3}, nothing[] = {0, 0}, recv[] = {4, 0};
    float data[4] = {};
    const Status status = c.rank() == 0 ? c.alltoall(ConstTensor(data, 3), send, Tensor(data, 0), nothing)
                                        : c.alltoall(ConstTensor(data, 0), nothing, Tensor(data, 4), recv);
    // Rank 0's own view is consistent: it may have finished before rank 1 fails.
    const Status seen = status ? c.barrier() : status;
    ASSERT_FALSE(seen);
    EXPECT_EQ(seen.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(seen.error().message(), HasSubstr("sends 3 elements to rank 1"));
    EXPECT_THAT(seen.error().message(), HasSubstr("expects 4"));
  });
}

TEST(Timeout, NamesWhoIsMissing) {
  std::latch gave_up(2);
  run_ranks(3, [&](Communicator& communicator) {
    if (communicator.rank() == 2) {
      gave_up.wait();
      const Status late = communicator.barrier();
      ASSERT_FALSE(late) << "the group ended at the first time-out";
      EXPECT_EQ(late.error().code(), Code::kTimeout);
      return;
    }
    float x = 0;
    const Status status = communicator.allreduce(Tensor(&x, 1), ReduceOp::kSum,
                                                 {.name = "loss", .timeout = std::chrono::milliseconds(100)});
    gave_up.count_down();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kTimeout);
    EXPECT_THAT(status.error().message(), HasSubstr("(loss)"));
    EXPECT_THAT(status.error().message(), HasSubstr("for rank 2 (pid "));
  });
}

// A rank whose operation failed may use its buffers again: no late peer writes to them.
// Of private memory, rank 2 has started a broadcast from rank 1 and then computes: the root cannot go on, nor can rank
// 0.
TEST(Timeout, NamesTheReceiverThatABroadcastWaitsFor) {
  for (const int impatient : {0, 1}) {
    std::latch gave_up(1);
    run_ranks(3, [&](Communicator& communicator) {
      std::vector<float> data(1 << 20);
      auto handle =
          communicator.start_broadcast(Tensor(data.data(), data.size()), 1,
                                       {.timeout = std::chrono::seconds(communicator.rank() == impatient ? 1 : 60)});
      ASSERT_TRUE(handle);
      if (communicator.rank() == 2) gave_up.wait();
      const Status status = handle->wait();
      if (communicator.rank() == impatient) gave_up.count_down();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::kTimeout);
      EXPECT_THAT(status.error().message(), ContainsRegex(" for rank 2 [^)]*[)] [^)]*[)]$"))
          << "rank " << impatient << " waited";
    });
  }
}

TEST(Timeout, LeavesNobodyInTheBuffers) {
  std::latch posted(1), gave_up(1), came_late(1);
  run_ranks(2, [&](Communicator& communicator) {
    auto buffer = communicator.shared_buffer(std::size_t{4} << 20).value();
    const auto values = buffer.as<float>();
    std::fill(values.begin(), values.end(), 1.0f);
    const Tensor data(values.data(), values.size());
    const bool late = communicator.rank() == 1;
    if (!late) posted.wait();  // so that the late rank has shown its buffer and done nothing yet
    Handle handle =
        communicator
            .start_allreduce(data, data, ReduceOp::kSum, {.timeout = std::chrono::milliseconds(late ? 60'000 : 100)})
            .value();
    if (late) {
      posted.count_down();
      gave_up.wait();
    }
    const Status status = handle.wait();
    EXPECT_FALSE(status);
    if (late) {
      came_late.count_down();
      return;
    }
    std::fill(values.begin(), values.end(), 7.0f);
    gave_up.count_down();
    came_late.wait();
    EXPECT_EQ(std::count(values.begin(), values.end(), 7.0f), static_cast<std::ptrdiff_t>(values.size()));
  });
}

TEST(LatePeer, IsWaitedFor) {
  run_ranks(3, [](Communicator& communicator) {
    for (int late = 0; late < 6; ++late) {
      if (communicator.rank() == late % 3)
        ::usleep(100'000);  // long enough for the others to sleep, once all have started
      float x = static_cast<float>(communicator.rank());
      ASSERT_TRUE(communicator.allreduce(Tensor(&x, 1)));
      EXPECT_EQ(x, 3);
    }
  });
}

TEST(WrongAlone, LeavesTheGroupUsable) {
  run_ranks(2, [](Communicator& communicator) {
    float x[4] = {1, 1, 1, 1};
    const std::size_t wrong[] = {1, 2, 3};
    EXPECT_EQ(communicator.allreduce(Tensor(static_cast<float*>(nullptr), 4)).error().code(), Code::kInvalidArgument);
    EXPECT_EQ(communicator.allreduce(ConstTensor(x, 4), Tensor(x, 3)).error().code(), Code::kInvalidArgument);
    EXPECT_EQ(communicator.allreduce(ConstTensor(x, 3), Tensor(x + 1, 3)).error().code(), Code::kInvalidArgument);
    EXPECT_EQ(communicator.allgather(ConstTensor(static_cast<float*>(nullptr), 5)).error().code(),
              Code::kInvalidArgument);
    EXPECT_EQ(communicator.broadcast(Tensor(x, 4), 2).error().code(), Code::kInvalidArgument);
    EXPECT_EQ(communicator.allgather(ConstTensor(x, 1), Tensor(x, 4), wrong).error().code(), Code::kInvalidArgument);
    bool flag = true;
    EXPECT_EQ(communicator.allreduce(Tensor(&flag, 1), ReduceOp::kAverage).error().code(), Code::kUnsupported);
    ASSERT_TRUE(communicator.allreduce(Tensor(x, 4)));
    EXPECT_EQ(x[3], 2);
  });
}

}  // namespace
}  // namespace xoe::testing

// What submitters are told when ranks leave, stall, disagree about an order, fork, or give bad arguments.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/testing/scratch.h"
#include "core/tests/engine/engines.h"
#include "core/tests/engine/warnings.h"

namespace xoe {
namespace {

using ::testing::HasSubstr;
using testing::in_place;
using testing::quiet_options;
using testing::run_engines;
using ::testing::StartsWith;
using Shape = std::vector<std::int64_t>;

TEST(EngineFailure, AnEngineThatGoesFailsWhatIsPendingEverywhere) {
  for (const bool progress_thread : {true, false}) {
    auto options = quiet_options();
    options.progress_thread = progress_thread;
    auto engines = testing::make_engines(testing::make_group(3), options);
    std::vector<float> x(4), y(4), z(4);
    const Shape shape{4};
    std::vector<std::vector<float>*> values{&x, &y, &z};
    std::vector<EngineHandle> handles(3);
    for (std::size_t r = 0; r < 2; ++r) {
      const TensorArg tensor = in_place(*values[r], shape);
      handles[r] = engines[r]->submit({.name = "conv1", .tensors = {&tensor, 1}}).value();
    }
    std::jthread waiter([&] {
      const Status status = handles[1].wait();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::kPeerLost);
      EXPECT_THAT(status.error().message(), StartsWith("allreduce 'conv1': rank 0 has shut its engine down"));
      EXPECT_THAT(status.error().message(), HasSubstr("less data than the others, let each rank call join()"));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    engines[0].reset();
    const Status own = handles[0].wait();
    ASSERT_FALSE(own);
    EXPECT_EQ(own.error().code(), Code::kUnavailable);
    EXPECT_THAT(own.error().message(), HasSubstr("allreduce 'conv1': the engine was shut down before it completed"));
    waiter.join();
    const TensorArg tensor = in_place(*values[1], shape);
    const auto later = engines[1]->submit({.name = "conv2", .tensors = {&tensor, 1}});
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().code(), Code::kPeerLost);
  }
}

TEST(EngineFailure, ARankThatFailsTellsWhy) {
  for (const bool progress_thread : {true, false}) {
    auto options = quiet_options();
    options.progress_thread = progress_thread;
    auto engines = testing::make_engines(testing::make_group(3), options);
    const std::vector<int> pair{0, 2};
    std::vector<ProcessSetId> sets(3);
    {
      std::vector<std::jthread> ranks;
      for (std::size_t r = 0; r < 3; ++r)
        ranks.emplace_back([&, r] { sets[r] = engines[r]->add_process_set(pair).value(); });
    }
    const Shape shape{4};
    std::vector<float> x(4), y(4);
    const TensorArg of_all = in_place(x, shape), of_pair = in_place(y, shape);
    auto all = engines[1]->submit({.name = "conv1", .tensors = {&of_all, 1}}).value();
    auto two = engines[0]->submit({.name = "conv2", .tensors = {&of_pair, 1}, .process_set = sets[0]}).value();
    std::jthread other([&] {
      const Status status = two.wait();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::kPeerLost);
      EXPECT_THAT(status.error().message(), HasSubstr("rank 2 failed: ValueError: no such file"));
    });
    ASSERT_TRUE(engines[2]->abort("ValueError: no such file"));
    const Status status = all.wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kPeerLost);
    EXPECT_THAT(status.error().message(), StartsWith("allreduce 'conv1': rank 2 failed: ValueError: no such file"));
    other.join();
    for (const auto& engine : engines) EXPECT_FALSE(engine->submit({.name = "conv3", .tensors = {&of_all, 1}}));
    EXPECT_EQ(engines[1]->abort("another one").error().code(), Code::kPeerLost) << "because of rank 2";
    engines[2]->close();
    EXPECT_EQ(engines[2]->abort("too late").error().code(), Code::kUnavailable);
  }
}

TEST(EngineFailure, ACallbackMayAbort) {
  auto engines = testing::make_engines(testing::make_group(2), quiet_options());
  const Shape shape{4};
  std::vector<float> x(4), y(4);
  const TensorArg own = in_place(x, shape), other = in_place(y, shape);
  std::atomic<bool> aborted{false};
  auto first = engines[0]->submit({.name = "first", .tensors = {&own, 1}, .callback = [&](const Status&) {
                                     aborted = engines[0]->abort("a\nline").has_value();
                                   }});
  auto second = engines[1]->submit({.name = "first", .tensors = {&other, 1}});
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->wait());
  static_cast<void>(second->wait());
  auto later = engines[1]->submit({.name = "later", .tensors = {&other, 1}});
  const Status status = later ? later->wait() : Status(tl::unexpected(later.error()));
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message(), HasSubstr("rank 0 failed: a\xEF\xBF\xBDline"));
  EXPECT_TRUE(aborted);
}

TEST(EngineFailure, AReasonIsCutAtACharacter) {
  auto engines = testing::make_engines(testing::make_group(2), quiet_options());
  std::string why;
  while (why.size() < 400) why += "\xE2\x82\xAC";
  ASSERT_TRUE(engines[0]->abort(why));
  const Shape shape{4};
  std::vector<float> x(4);
  const TensorArg tensor = in_place(x, shape);
  auto handle = engines[1]->submit({.name = "x", .tensors = {&tensor, 1}});
  const Status status = handle ? handle->wait() : Status(tl::unexpected(handle.error()));
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message(), HasSubstr("rank 0 failed: " + why.substr(0, 300)));
  EXPECT_THAT(status.error().message(), ::testing::Not(HasSubstr(why.substr(0, 303))));
}

TEST(EngineFailure, EnginesComeAndGoInOneProcess) {
  for (int round = 0; round < 20; ++round)
    run_engines(2, [&](Engine& engine) {
      std::vector<float> x(1000, static_cast<float>(round));
      const Shape shape{1000};
      const TensorArg tensor = in_place(x, shape);
      ASSERT_TRUE(engine.run({.name = "x", .tensors = {&tensor, 1}}));
      EXPECT_THAT(x, ::testing::Each(static_cast<float>(2 * round)));
    });
}

TEST(EngineFailure, AStallIsReportedWithBothListsOfRanks) {
  testing::Warnings warnings;
  auto options = quiet_options();
  options.warn = warnings.listener();
  options.stall_warning = std::chrono::milliseconds(100);
  run_engines(
      3,
      [&](Engine& engine) {
        std::vector<float> x(1);
        const Shape shape{1};
        const TensorArg tensor = in_place(x, shape);
        if (engine.topology().rank == 2) {
          auto first = engine.submit({.name = "first", .tensors = {&tensor, 1}}).value();
          ASSERT_FALSE(first.poll());
          const auto about_late = [](const std::string& line) { return line.starts_with("'late'"); };
          for (auto lines = warnings.lines(); std::none_of(lines.begin(), lines.end(), about_late);
               lines = warnings.lines())
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          ASSERT_TRUE(engine.run({.name = "late", .op = {.kind = OpKind::kBarrier}}));
          ASSERT_TRUE(first.wait());
        } else {
          ASSERT_TRUE(engine.run({.name = "late", .op = {.kind = OpKind::kBarrier}}));
          ASSERT_TRUE(engine.run({.name = "first", .tensors = {&tensor, 1}}));
        }
      },
      options);
  EXPECT_THAT(warnings.lines(),
              ::testing::Contains(::testing::AllOf(HasSubstr("'late'"), HasSubstr("submitted by ranks 0, 1"),
                                                   HasSubstr("missing on rank 2 (last submitted 'first' there)"))));
}

TEST(EngineFailure, AStallBeyondTheLimitFailsOnAllRanks) {
  auto options = quiet_options();
  options.stall_limit = std::chrono::milliseconds(100);
  std::latch done(2);
  run_engines(
      2,
      [&](Engine& engine) {
        if (engine.topology().rank == 0) {
          const Status status = engine.run({.name = "b", .op = {.kind = OpKind::kBarrier}});
          ASSERT_FALSE(status);
          EXPECT_EQ(status.error().code(), Code::kTimeout);
          EXPECT_THAT(status.error().message(), HasSubstr("missing on rank 1"));
          done.count_down();
          done.wait();
          return;
        }
        done.count_down();
        done.wait();
        Status status;
        while (status) status = engine.run({.op = {.kind = OpKind::kBarrier}});
        EXPECT_EQ(status.error().code(), Code::kTimeout);
        EXPECT_THAT(status.error().message(), HasSubstr("'b'"));
      },
      options);
}

TEST(EngineFailure, AnOperationWithATimeoutEndsItsProcessSetAlone) {
  std::latch done(2);
  run_engines(2, [&](Engine& engine) {
    const std::vector<int> both{0, 1};
    const auto set = engine.add_process_set(both).value();
    const OpSpec barrier{.kind = OpKind::kBarrier};
    if (engine.topology().rank == 0) {
      const Status status =
          engine.run({.name = "b", .op = barrier, .process_set = set, .timeout = std::chrono::milliseconds(50)});
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::kTimeout);
      EXPECT_THAT(status.error().message(),
                  ::testing::AllOf(HasSubstr("Timed out after "), HasSubstr("missing on rank 1")));
    }
    done.arrive_and_wait();
    const Status late = engine.run({.name = "b", .op = barrier, .process_set = set});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code(), Code::kTimeout);
    EXPECT_TRUE(engine.run({.name = "of the world", .op = barrier, .timeout = std::chrono::minutes(1)}));
  });
}

TEST(EngineFailure, RanksThatWaitForEachOtherInTwoSetsAreNamed) {
  testing::Warnings warnings;
  auto options = quiet_options();
  options.warn = warnings.listener();
  run_engines(
      2,
      [&](Engine& engine) {
        const std::vector<int> both{0, 1};
        const auto a = engine.add_process_set(both).value(), b = engine.add_process_set(both).value();
        const bool first = engine.topology().rank == 0;
        auto mine =
            engine.submit({.name = first ? "x" : "y", .op = {.kind = OpKind::kBarrier}, .process_set = first ? a : b})
                .value();
        // Its only thread blocks here until it gives up.
        while (warnings.lines().empty()) (void)mine.wait_for(std::chrono::milliseconds(2500));
        ASSERT_TRUE(
            engine.run({.name = first ? "y" : "x", .op = {.kind = OpKind::kBarrier}, .process_set = first ? b : a}));
        ASSERT_TRUE(mine.wait());
      },
      options);
  ASSERT_FALSE(warnings.lines().empty());
  EXPECT_EQ(
      warnings.lines()[0],
      "order deadlock: rank 0 waits for 'x' (process set 1), which rank 1 has not submitted; rank 1 waits for 'y' "
      "(process set 2), which rank 0 has not submitted");
}

// As on a full disk.
TEST(EngineFailure, ATimelineThatCannotBeWrittenIsSaid) {
  testing::Warnings warnings;
  auto options = quiet_options();
  options.warn = warnings.listener();
  const Scratch scratch;
  options.timeline = scratch.file("timeline");
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = ::signal(SIGXFSZ, SIG_IGN);
  run_engines(
      1,
      [&](Engine& engine) {
        const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
        ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
        for (int i = 0; i < 1000; ++i) ASSERT_TRUE(engine.run({.op = {.kind = OpKind::kBarrier}}));
      },
      options);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(warnings.lines(), ::testing::Contains(HasSubstr("the timeline is incomplete: ")));
}

// Submissions race with the removal of their set: each is refused or completes, nothing hangs.
TEST(EngineFailure, ASetCanBeRemovedWhileThreadsUseIt) {
  for (int round = 0; round < 20; ++round)
    run_engines(2, [](Engine& engine) {
      const std::vector<int> both{0, 1};
      const auto set = engine.add_process_set(both).value();
      std::jthread user([&] {
        std::vector<float> x(10, 1.0F);
        const Shape shape{10};
        const TensorArg tensor = in_place(x, shape);
        for (Status status; status;) {
          auto handle = engine.submit(
              {.name = "x", .op = {.reduce = ReduceOp::kMax}, .tensors = {&tensor, 1}, .process_set = set});
          status = handle ? handle->wait() : Status(failure(handle.error()));
        }
      });
      ASSERT_TRUE(engine.remove_process_set(set));
      user.join();
      ASSERT_TRUE(engine.run({.name = "still here", .op = {.kind = OpKind::kBarrier}}));
    });
}

TEST(EngineFailure, AForkedChildIsToldSo) {
  run_engines(1, [](Engine& engine) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Status status = engine.run({.name = "b", .op = {.kind = OpKind::kBarrier}});
      const bool told = !status && status.error().code() == Code::kUnavailable &&
                        status.error().message().find("forked") != std::string::npos;
      ::_exit(told ? 0 : 1);
    }
    int how = 0;
    ::waitpid(child, &how, 0);
    EXPECT_EQ(how, 0);
    EXPECT_TRUE(engine.run({.name = "b", .op = {.kind = OpKind::kBarrier}}));
  });
}

TEST(EngineFailure, CallbacksMaySubmitButNotWaitAndMayThrow) {
  run_engines(2, [](Engine& engine) {
    std::atomic<int> state{0};
    EngineHandle inner;
    Status waited;
    auto outer = engine
                     .submit({.name = "a",
                              .op = {.kind = OpKind::kBarrier},
                              .callback =
                                  [&](const Status&) {
                                    inner = engine.submit({.name = "b", .op = {.kind = OpKind::kBarrier}}).value();
                                    waited = inner.wait();
                                    state = 1;
                                    throw std::runtime_error("from a callback");
                                  }})
                     .value();
    const Status status = outer.wait();
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message(), HasSubstr("barrier 'a': its callback threw an exception"));
    ASSERT_EQ(state, 1);
    ASSERT_FALSE(waited);
    EXPECT_THAT(waited.error().message(), HasSubstr("wait() inside a callback"));
    EXPECT_TRUE(inner.wait());
  });
}

TEST(EngineFailure, AnAllocatorThatRefusesConcernsItsRankOnly) {
  run_engines(2, [](Engine& engine) {
    std::vector<float> x(3, 1);
    const Shape shape{3};
    const TensorArg tensor{x.data(), nullptr, DType::kFloat32, shape};
    Request request{.name = "g", .op = {.kind = OpKind::kAllgather}, .tensors = {&tensor, 1}};
    if (engine.topology().rank == 0)
      request.allocator = [](std::size_t, std::span<const std::int64_t>, DType) -> void* { return nullptr; };
    const Status status = engine.run(request);
    EXPECT_EQ(status.has_value(), engine.topology().rank == 1);
    if (!status) {
      EXPECT_EQ(status.error().code(), Code::kResourceExhausted);
    }
    EXPECT_TRUE(engine.run({.name = "b", .op = {.kind = OpKind::kBarrier}}));
  });
}

TEST(EngineFailure, BadArgumentsAreRefusedBeforeAnybodySeesThem) {
  run_engines(1, [](Engine& engine) {
    std::vector<float> x(6);
    const Shape shape{6}, negative{-1}, scalar{};
    const TensorArg good = in_place(x, shape), none{nullptr, nullptr, DType::kFloat32, shape};
    const TensorArg bad_shape{x.data(), x.data(), DType::kFloat32, negative},
        single{x.data(), nullptr, DType::kFloat32, scalar};
    const TensorArg odd{x.data(), x.data(), static_cast<DType>(99), shape};
    const auto refused = [&](const Request& request, const char* why) {
      const auto result = engine.submit(request);
      ASSERT_FALSE(result) << why;
      EXPECT_EQ(result.error().code(), Code::kInvalidArgument) << why;
      EXPECT_THAT(result.error().message(), HasSubstr(why));
    };
    refused({.name = "x", .tensors = {&none, 1}}, "has 6 elements and no memory");
    refused({.name = "x", .tensors = {&bad_shape, 1}}, "has shape [-1]");
    refused({.name = "x", .tensors = {&odd, 1}}, "no known element type");
    refused({.name = "x"}, "takes one tensor or more, got 0");
    refused({.name = "x", .op = {.kind = OpKind::kBarrier}, .tensors = {&good, 1}}, "takes no tensors");
    refused({.name = "x", .op = {.kind = OpKind::kBroadcast, .root = 1}, .tensors = {&good, 1}},
            "root 1 is not one of the 1");
    refused({.name = "x", .op = {.kind = OpKind::kAllgather}, .tensors = {&single, 1}}, "is a scalar");
    const Shape splits{1, 2};
    const TensorArg open{x.data(), nullptr, DType::kFloat32, shape},
        overlapping{x.data(), x.data() + 1, DType::kFloat32, shape};
    refused({.name = "x", .op = {.kind = OpKind::kAlltoall}, .tensors = {&open, 1}, .splits = splits}, "2 splits");
    refused({.name = "x", .op = {.kind = OpKind::kAlltoall}, .tensors = {&good, 1}}, "does not work in place");
    refused({.name = "x", .tensors = {&overlapping, 1}}, "overlap without being in place");
    refused({.name = "x", .op = {.prescale = 1.0 / 0.0}, .tensors = {&good, 1}}, "must be finite");
    refused({.name = "x", .op = {.kind = OpKind::kBroadcast, .prescale = 2}, .tensors = {&good, 1}},
            "takes no prescale");
    refused({.name = "x",
             .op = {.reduce = ReduceOp::kMax, .compression = {.kind = Compression::kFloat8}},
             .tensors = {&good, 1}},
            "is for allreduce with sum or average");
    refused({.name = "x", .tensors = {&good, 1}, .process_set = 7}, "there is no process set 7");
    refused({.name = std::string(2000, 'n'), .tensors = {&good, 1}}, "2000 bytes");
    EXPECT_TRUE(engine.run({.name = "x", .tensors = {&good, 1}}));
  });
}

}  // namespace
}  // namespace xoe

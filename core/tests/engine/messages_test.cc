// Messages between ranks that are threads.
#include "core/engine/messages/messages.h"

#include <gtest/gtest.h>

#include <latch>

#include "core/tests/engine/engines.h"

namespace xoe::testing {
namespace {

// A peer's end is looked at before what it has sent: that counts all the same.
TEST(Messages, OfARankThatHasClosedStillArrive) {
  std::latch closed(2);
  run_engines(2, [&](Engine& engine) {
    const int rank = engine.topology().rank;
    const auto messages = engine::Messages::open(engine, {.name = "m", .progress_thread = false}).value();
    int value = rank == 1 ? 17 : 0;
    if (rank == 1) {
      const auto sent = messages->send(0, 7, &value, sizeof value).value();
      ASSERT_TRUE(messages->wait(sent, std::chrono::seconds(60)).value());
      messages->close();
    }
    closed.arrive_and_wait();
    if (rank == 1) return;
    const auto received = messages->receive(1, 7, &value, sizeof value).value();
    messages->check_failures();
    const auto done = messages->wait(received, {});
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_TRUE(*done);
    EXPECT_EQ(value, 17);
    const auto another = messages->receive(1, 7, &value, sizeof value).value();
    const auto failed = messages->wait(another, std::chrono::seconds(60));
    ASSERT_FALSE(failed) << "it sends no more";
    EXPECT_EQ(failed.error().code(), Code::kPeerLost);
  });
}

// All ranks learn that one of them has no memory for its box, and none of them waits.
TEST(Messages, OfARankWithoutMemoryAreRefusedOnAll) {
  run_engines(2, [](Engine& engine) {
    const int rank = engine.topology().rank;
    std::vector<SharedBuffer> all;
    for (std::size_t bytes = std::size_t{128} << 20; rank == 0 && bytes >= 4096;) {
      auto taken = engine.shared_buffer(bytes);
      if (taken)
        all.push_back(std::move(*taken));
      else
        bytes /= 2;
    }
    ASSERT_TRUE(engine.run({.name = "full", .op = {.kind = OpKind::kBarrier}}));
    const auto refused = engine::Messages::open(engine, {.name = "m", .progress_thread = false});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kResourceExhausted) << refused.error().message();
    all.clear();
    EXPECT_TRUE(engine::Messages::open(engine, {.name = "n", .progress_thread = false}));
    ASSERT_TRUE(engine.run({.name = "end", .op = {.kind = OpKind::kBarrier}}));
  });
}

}  // namespace
}  // namespace xoe::testing

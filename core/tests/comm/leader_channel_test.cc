// Messages between leaders of pretended hosts, in shared memory.
#include "core/backend/shm/leader_channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>

namespace xoe::shm {
namespace {

// Two hosts in this process.
class LeaderChannels : public ::testing::Test {
 protected:
  LeaderChannels() {
    for (auto& one : memory_) {
      one = static_cast<std::byte*>(::operator new (leader_channel_bytes(2), std::align_val_t{64}));
      std::memset(one, 0, leader_channel_bytes(2));
    }
    first_ = make_leader_channel({memory_[0], memory_[1]}, 0);
    second_ = make_leader_channel({memory_[0], memory_[1]}, 1);
  }
  ~LeaderChannels() override {
    for (auto* one : memory_) ::operator delete (one, std::align_val_t{64});
  }

  std::byte* memory_[2] = {};
  std::unique_ptr<LeaderChannel> first_, second_;
};

// Who takes bytes tells so, though it has no message yet: the sender sleeps until there is room for the rest.
TEST_F(LeaderChannels, AMessageThatIsLargerThanTheRingNeedsNoOtherEvent) {
  const std::vector<std::byte> sent(300'000, std::byte{7});
  first_->send(1, sent);
  ASSERT_TRUE(first_->progress());
  std::optional<LeaderChannel::Incoming> got;
  for (int turn = 0; turn < 20 && !got; ++turn) {
    EXPECT_FALSE(first_->progress()) << "the ring is full";
    got = second_->receive();
    EXPECT_TRUE(second_->progress()) << "there is room again: the sender must be woken, turn " << turn;
    EXPECT_EQ(first_->progress(), !got.has_value());
  }
  ASSERT_TRUE(got);
  EXPECT_EQ(got->from_host, 0);
  EXPECT_EQ(got->message, sent);
  EXPECT_FALSE(second_->progress()) << "nothing to tell any more";
}

}  // namespace
}  // namespace xoe::shm

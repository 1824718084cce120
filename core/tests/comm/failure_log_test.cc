// The log of failures that a host's ranks share, without ranks.
#include "core/backend/hierarchical/failure_log.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

namespace xoe::hierarchical {
namespace {

constexpr int kReaders = 3;

FailureEvent departure(int number, std::uint64_t group = 0, std::uint32_t members = 2) {
  return {.kind = FailureEvent::Kind::kRankLeft, .rank = number, .group = group, .members = members};
}

FailureEvent loss(int rank) {
  FailureEvent event{.kind = FailureEvent::Kind::kRankLost, .rank = rank};
  event.set_cause(Code::kPeerLost, "killed");
  return event;
}

class FailureLogs : public ::testing::Test {
 protected:
  FailureLogs() {
    const std::size_t bytes = FailureLog::bytes(kReaders);
    memory_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}));
    std::memset(memory_, 0, bytes);
    for (int i = 0; i < kReaders; ++i) logs_[i] = std::make_unique<FailureLog>(memory_, i, kReaders);
  }
  ~FailureLogs() override {
    for (auto& log : logs_) log.reset();
    ::operator delete (memory_, std::align_val_t{64});
  }

  // The next rank, or -1.
  int read(int reader) {
    FailureEvent event;
    return logs_[reader]->read(event) ? event.rank : -1;
  }

  std::byte* memory_ = nullptr;
  std::unique_ptr<FailureLog> logs_[kReaders];
};

TEST_F(FailureLogs, TurnForAYearOfEvents) {
  for (int number = 0; number < 100'000; ++number) {
    logs_[number % kReaders]->append(departure(number));
    for (int reader = 0; reader < kReaders; ++reader) ASSERT_EQ(read(reader), number) << "reader " << reader;
  }
  for (int reader = 0; reader < kReaders; ++reader) EXPECT_EQ(read(reader), -1);
}

TEST_F(FailureLogs, KeepWhatASlowReaderHasNotRead) {
  constexpr int kMany = 2000;
  for (int number = 0; number < kMany; ++number) {
    logs_[0]->append(departure(number));
    if (number < 400) {
      ASSERT_EQ(read(0), number);
      ASSERT_EQ(read(1), number);
    }
  }
  EXPECT_FALSE(logs_[0]->flush()) << "reader 2 has read nothing";
  for (int number = 0; number < kMany; ++number) {
    ASSERT_EQ(read(2), number);
    if (number >= 400) {
      ASSERT_EQ(read(0), number);
      ASSERT_EQ(read(1), number);
    }
    logs_[0]->flush();
  }
  EXPECT_TRUE(logs_[0]->flush());
}

TEST_F(FailureLogs, HaveRoomForALossAmongManyDepartures) {
  for (int number = 0; number < 10 * static_cast<int>(FailureLog::kEvents); ++number)
    logs_[1]->append(departure(number));
  logs_[0]->append(loss(7));
  int last = -1;
  for (int next = read(2); next >= 0; next = read(2)) last = next;
  EXPECT_EQ(last, 7);
}

TEST_F(FailureLogs, DoNotWaitForAReaderThatIsGone) {
  logs_[0]->set_gone(2);
  for (int number = 0; number < 2000; ++number) {
    logs_[0]->append(departure(number));
    ASSERT_EQ(read(0), number);
    ASSERT_EQ(read(1), number);
  }
  EXPECT_TRUE(logs_[0]->flush());
}

TEST_F(FailureLogs, AListenerThatWaitsForRoomIsWokenByTheSlowReader) {
  constexpr int kMany = 1500;
  logs_[2]->set_gone(2);
  std::mutex mutex;
  std::condition_variable heard_all;
  int heard = 0;
  FailureListener listener(*logs_[0], [&](const FailureEvent& event) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(event.rank, heard);
    if (++heard == kMany) heard_all.notify_all();
  });
  for (int number = 0; number < kMany; ++number) listener.append(departure(number, 1, kMany + 1));
  FailureEvent event;
  for (int number = 0; number < kMany;) {
    const std::uint32_t word = logs_[1]->word();
    if (!logs_[1]->read(event)) {
      logs_[1]->sleep(word);
      continue;
    }
    ASSERT_EQ(event.rank, number++);
  }
  std::unique_lock lock(mutex);
  EXPECT_TRUE(heard_all.wait_for(lock, std::chrono::seconds(60), [&] { return heard == kMany; }));
}

TEST(PastEvents, ForgetAGroupThatAllHaveLeft) {
  PastEvents past;
  past.add(loss(9));
  for (std::uint64_t group = 1; group <= 100'000; ++group) {
    past.add(departure(0, group));
    past.add({.kind = FailureEvent::Kind::kGroupFailed, .rank = 0, .group = group});
    past.add(departure(1, group));
    ASSERT_EQ(past.events().size(), 1U);
  }
  EXPECT_EQ(past.events().front().rank, 9);
  past.add(departure(0, 5));
  EXPECT_EQ(past.events().size(), 2U) << "one of two ranks may still make the group";
}

}  // namespace
}  // namespace xoe::hierarchical

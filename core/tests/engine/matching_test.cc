// What arrives on a link, and which receives get it.
#include "core/engine/messages/matching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace xoe::engine {
namespace {

// Bytes that wait at the other end; `room`: how many it takes or gives until it is given more.
class Pipe final : public ByteLink {
 public:
  std::size_t room = std::size_t{1} << 30;

  std::size_t write(std::span<const std::byte> bytes) override {
    const std::size_t count = std::min(bytes.size(), room);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    room -= count;
    return count;
  }
  std::size_t read(std::span<std::byte> into) override {
    const std::size_t count = std::min({into.size(), bytes_.size(), room});
    std::copy_n(bytes_.begin(), count, into.begin());
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(count));
    room -= count;
    return count;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::vector<std::byte> bytes_;
};

struct Text {
  MessagePtr message;
  std::string text;

  explicit Text(std::string given, int peer = 0, std::uint64_t tag = 1, bool is_send = false) : text(std::move(given)) {
    message = std::make_shared<Message>(Message{.is_send = is_send,
                                                .peer = peer,
                                                .tag = tag,
                                                .data = reinterpret_cast<std::byte*>(text.data()),
                                                .bytes = text.size()});
  }
  Text(const Text&) = delete;
  bool done() const { return message->done && message->result.has_value(); }
};

void put(ByteLink& link, std::string text, std::uint64_t tag = 1) {
  const Text send(std::move(text), 0, tag, true);
  SendQueue queue;
  queue.add(send.message);
  while (queue.push(link)) {
  }
  ASSERT_TRUE(send.done());
}

void pull_all(Matching& matching, int from, ByteLink& link) {
  while (matching.pull(from, link)) {
  }
}

constexpr std::size_t kHeader = 16;
const Status kLost = failure(Code::kPeerLost, "rank 1 has ended");

}  // namespace

TEST(Matching, ReceivesGetMessagesInTheOrderInWhichTheyWerePosted) {
  Matching matching(2);
  Pipe link;
  Text of_any("..", kAnyRank), named("..", 1), later("..", kAnyRank);
  for (const Text* text : {&of_any, &named, &later}) matching.add(text->message);
  for (const char* text : {"m1", "m2", "m3"}) put(link, text);
  pull_all(matching, 1, link);
  EXPECT_EQ(of_any.text + named.text + later.text, "m1m2m3");
  EXPECT_EQ(of_any.message->peer, 1);
}

TEST(Matching, TagsAreApart) {
  Matching matching(1);
  Pipe link;
  Text second("..", 0, 2), first("..", 0, 1);
  put(link, "m1", 1);
  put(link, "m2", 2);
  matching.add(second.message);
  pull_all(matching, 0, link);
  EXPECT_EQ(second.text, "m2");
  matching.add(first.message);
  EXPECT_TRUE(first.done());
  EXPECT_EQ(first.text, "m1");
}

TEST(Matching, NothingIsReadThatNoReceiveMayWant) {
  Matching matching(1);
  Pipe link;
  put(link, "m1");
  EXPECT_FALSE(matching.pull(0, link));
  EXPECT_FALSE(link.empty());
}

TEST(Matching, ReceivesFromAnyRankTakeTurns) {
  constexpr int kRanks = 3, kRounds = 30;
  Matching matching(kRanks);
  std::vector<Pipe> links(kRanks);
  std::vector<int> heard(kRanks);
  for (int i = 0; i < kRanks * kRounds; ++i) {
    for (Pipe& link : links) put(link, "x");
    Text text(".", kAnyRank);
    matching.add(text.message);
    const int first = matching.turn();
    for (int r = 0; r < kRanks; ++r) {
      const int from = (first + r) % kRanks;
      pull_all(matching, from, links[static_cast<std::size_t>(from)]);
    }
    ASSERT_TRUE(text.done());
    ++heard[static_cast<std::size_t>(text.message->peer)];
  }
  EXPECT_EQ(heard, std::vector<int>(kRanks, kRounds));
}

TEST(Matching, AMessageOfAnotherSizeIsAnErrorOfItsReceiveAlone) {
  Matching matching(1);
  Pipe link;
  Text shorter(".."), right("....");
  put(link, "long");
  put(link, "next");
  matching.add(shorter.message);
  matching.add(right.message);
  pull_all(matching, 0, link);
  EXPECT_EQ(shorter.message->result.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(shorter.text, "..");
  EXPECT_EQ(right.text, "next");
}

TEST(Matching, AReceiveThatIsGivenUpInTheMiddleLeavesItsMessageToTheNext) {
  Matching matching(1);
  Pipe link;
  put(link, "hello");
  {
    const Text given_up(".....");
    matching.add(given_up.message);
    link.room = kHeader + 2;
    pull_all(matching, 0, link);
    EXPECT_EQ(given_up.text, "he...");
    matching.forget(given_up.message);
  }
  link.room = 100;
  Text next(".....");
  matching.add(next.message);
  pull_all(matching, 0, link);
  EXPECT_EQ(next.text, "hello");
}

TEST(Matching, TheRestOfAMessageThatFailedIsNeverTakenForAnother) {
  Matching matching(2);
  Pipe link;
  put(link, "hello");
  Text cut(".....", 1);
  matching.add(cut.message);
  link.room = kHeader + 2;
  pull_all(matching, 1, link);
  matching.fail(1, kLost);
  EXPECT_EQ(cut.message->result.error().code(), Code::kPeerLost);
  link.room = 100;
  Text next(".....", 1);
  matching.add(next.message);
  pull_all(matching, 1, link);
  EXPECT_FALSE(next.message->done);
  EXPECT_EQ(next.text, ".....");
  matching.fail(1, kLost);
  EXPECT_TRUE(next.message->done);
}

TEST(SendQueue, ASendThatIsGivenUpIsWithdrawnUnlessBytesHaveLeft) {
  SendQueue queue;
  Pipe link;
  {
    const Text begun("begun", 0, 1, true), untouched("never", 0, 1, true);
    queue.add(begun.message);
    queue.add(untouched.message);
    link.room = kHeader + 1;
    queue.push(link);
    queue.give_up(begun.message);
    queue.give_up(untouched.message);
  }
  link.room = 1000;
  while (queue.push(link)) {
  }
  put(link, "after");
  Matching matching(1);
  Text first("....."), second(".....");
  matching.add(first.message);
  matching.add(second.message);
  link.room = 1000;
  pull_all(matching, 0, link);
  EXPECT_EQ(first.text, "begun");
  EXPECT_EQ(second.text, "after");
}

TEST(SendQueue, TakesNothingAfterAFailure) {
  SendQueue queue;
  Pipe link;
  const Text first("first", 0, 1, true), second("second", 0, 1, true);
  queue.add(first.message);
  queue.fail(kLost);
  queue.add(second.message);
  EXPECT_FALSE(queue.push(link));
  for (const Text* text : {&first, &second}) EXPECT_EQ(text->message->result.error().code(), Code::kPeerLost);
}

// So that one large message does not keep the lock from all others.
TEST(SendQueue, ATurnIsShort) {
  SendQueue queue;
  Pipe link;
  const Text large(std::string(5'000'000, 'x'), 0, 1, true);
  queue.add(large.message);
  int turns = 0;
  while (queue.push(link)) ++turns;
  EXPECT_TRUE(large.done());
  EXPECT_GE(turns, 4);
}

}  // namespace xoe::engine

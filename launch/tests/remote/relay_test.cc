// A relay between a launcher that the test plays and programs that stand for remote shells.
#include "launch/remote/relay.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <string>

namespace xoe::remote {
namespace {

using Kind = Frame::Kind;

class RelayTest : public testing::Test {
 protected:
  static constexpr std::int64_t kNumber = 7;

  RelayTest() : relay_(Inherited::current()), launcher_(false) { ::signal(SIGPIPE, SIG_IGN); }

  void send(Kind kind, std::string_view text = {}, std::int64_t hosts = 1) {
    EXPECT_TRUE(relay_.on_frame({.kind = kind, .rank = kNumber, .value = hosts, .text = text}, launcher_));
  }
  void start(const std::vector<std::string>& command) { send(Kind::kRelayStart, encode_texts(command)); }
  void turn() {
    std::vector<pollfd> polled(1, {.fd = -1, .events = 0, .revents = 0});
    relay_.add_to(polled, launcher_);
    ::poll(polled.data(), polled.size(), 20);
    relay_.pump(polled, launcher_);
  }
  // Reads what the relay says, as the launcher does, until the shell has ended.
  void run_to_the_end() {
    FrameReader reader(false);
    for (int i = 0; i < 2000 && !status_; ++i) {
      turn();
      reader.append(launcher_.take());
      while (const auto frame = reader.next().value()) {
        EXPECT_EQ(frame->rank, kNumber);
        if (frame->kind == Kind::kRelayOutput) out_ += frame->text;
        if (frame->kind == Kind::kRelayStderr) err_ += frame->text;
        if (frame->kind == Kind::kRelayEnded) status_ = static_cast<int>(frame->value);
      }
    }
    ASSERT_TRUE(status_);
  }

  Relay relay_;
  FrameConnection launcher_;
  std::string out_;
  std::string err_;
  std::optional<int> status_;
};

TEST_F(RelayTest, CarriesBytesBothWays) {
  start({"sh", "-c", "head -c 300002; echo words >&2; exit 3"});
  const std::string text(300'000, 'x');
  send(Kind::kRelayInput, text);
  send(Kind::kRelayInput, std::string_view("\0\n", 2));
  run_to_the_end();
  EXPECT_EQ(out_, text + std::string("\0\n", 2));
  EXPECT_EQ(err_, "words\n");
  EXPECT_EQ(WEXITSTATUS(*status_), 3);
  EXPECT_TRUE(relay_.finished(Relay::Clock::now()));
}

TEST_F(RelayTest, AProgramThatIsNotThere) {
  start({"no-such-shell"});
  run_to_the_end();
  EXPECT_NE(err_.find("no-such-shell"), std::string::npos) << err_;
  EXPECT_EQ(WEXITSTATUS(*status_), 255);
}

TEST_F(RelayTest, ACommandThatIsNone) {
  send(Kind::kRelayStart, "\x05");
  run_to_the_end();
  EXPECT_EQ(WEXITSTATUS(*status_), 255);
}

TEST_F(RelayTest, KeepsLittleForALauncherThatDoesNotRead) {
  start({"sh", "-c", "head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2"});
  for (int i = 0; i < 20'000 && launcher_.queued() < std::size_t{1} << 20; ++i) turn();
  EXPECT_GE(launcher_.queued(), std::size_t{1} << 20);
  for (int i = 0; i < 100; ++i) turn();  // it takes no more
  EXPECT_LE(launcher_.queued(), (std::size_t{1} << 20) + (std::size_t{66} << 10));
  run_to_the_end();
  EXPECT_EQ(out_.size(), 20'000'000U);
  EXPECT_EQ(err_.size(), 20'000'000U);
}

TEST_F(RelayTest, EndsAShellThatDoesNotRead) {
  start({"sleep", "100"});
  const std::string chunk(std::size_t{1} << 20, 'x');
  for (std::size_t size = 0; size <= kMaxFrame + chunk.size(); size += chunk.size()) send(Kind::kRelayInput, chunk);
  run_to_the_end();
  EXPECT_EQ(WTERMSIG(*status_), SIGKILL);
}

TEST_F(RelayTest, KillsOrHangsUp) {
  start({"sleep", "100"});
  send(Kind::kRelayKill);
  run_to_the_end();
  EXPECT_EQ(WTERMSIG(*status_), SIGKILL);
  start({"cat"});
  send(Kind::kRelayHangUp);
  status_.reset();
  run_to_the_end();
  EXPECT_EQ(*status_, 0);
}

TEST_F(RelayTest, HangsUpWithTheLauncher) {
  start({"cat"});
  EXPECT_FALSE(relay_.finished(Relay::Clock::now()));
  relay_.hang_up(Relay::Clock::now());
  run_to_the_end();
  EXPECT_EQ(*status_, 0);
  EXPECT_TRUE(relay_.finished(Relay::Clock::now()));
}

TEST_F(RelayTest, KnowsWhatIsNotItsBusiness) {
  EXPECT_FALSE(relay_.on_frame({.kind = Kind::kSignal}, launcher_));
  EXPECT_TRUE(relay_.on_frame({.kind = Kind::kRelayInput, .rank = -1, .text = "x"}, launcher_));
  EXPECT_EQ(launcher_.queued(), 0U);
}

}  // namespace
}  // namespace xoe::remote

#include "core/bootstrap/status_page.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace xoe::bootstrap {
namespace {

using std::chrono::milliseconds;
using Clock = StatusPage::Clock;

Env rank_env(const StatusPage& page, int rank, int size = 2) {
  return Env(
      {{kStatusVariable, page.path()}, {"XOE_LOCAL_RANK", std::to_string(rank)}, {"XOE_SIZE", std::to_string(size)}});
}

TEST(StatusPage, TheLauncherReadsWhatRanksWrite) {
  auto page = StatusPage::create(2);
  ASSERT_TRUE(page) << page.error().message();
  EXPECT_FALSE(page->facts(Clock::now())[0].joined);
  auto writer = StatusWriter::of_process(rank_env(*page, 1));
  EXPECT_EQ(writer.job_size(), 2);
  writer.step();
  writer.step();
  writer.operation();
  auto facts = page->facts(Clock::now());
  EXPECT_FALSE(facts[0].joined);
  EXPECT_TRUE(facts[1].joined);
  EXPECT_EQ(facts[1].steps, 2U);
  EXPECT_EQ(facts[1].operations, 1U);
  EXPECT_EQ(facts[1].wait, WaitKind::kNone);
}

TEST(StatusPage, AnotherProcessWrites) {
  auto page = StatusPage::create(2);
  ASSERT_TRUE(page) << page.error().message();
  const Env env = rank_env(*page, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    StatusWriter::of_process(env).step();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(page->facts(Clock::now())[0].steps, 1U);
}

TEST(StatusPage, WaitsCountForTheInnermost) {
  auto page = StatusPage::create(1);
  ASSERT_TRUE(page) << page.error().message();
  auto writer = StatusWriter::of_process(rank_env(*page, 0, 1));
  {
    const StatusWait outer(writer, WaitKind::kData);
    std::this_thread::sleep_for(milliseconds(20));
    {
      const StatusWait inner(writer, WaitKind::kPeers);
      std::this_thread::sleep_for(milliseconds(30));
      const RankFacts facts = page->facts(Clock::now())[0];
      EXPECT_EQ(facts.wait, WaitKind::kPeers);
      EXPECT_GE(facts.waited, milliseconds(29));
      EXPECT_GE(facts.peers, facts.waited - milliseconds(1));
    }
    EXPECT_EQ(page->facts(Clock::now())[0].wait, WaitKind::kData);
  }
  const RankFacts after = page->facts(Clock::now())[0];
  EXPECT_EQ(after.wait, WaitKind::kNone);
  EXPECT_GE(after.data, milliseconds(19));
  EXPECT_GE(after.peers, milliseconds(29));
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(page->facts(Clock::now())[0], after);
}

TEST(StatusPage, ANoteIsForTheWaitInWhichItWasMade) {
  auto page = StatusPage::create(1);
  ASSERT_TRUE(page) << page.error().message();
  auto writer = StatusWriter::of_process(rank_env(*page, 0, 4));
  const WaitKind outer = writer.begin(WaitKind::kPeers);
  const std::vector<int> missing = {1, 3};
  writer.explain("conv1.weight", missing);
  RankFacts facts = page->facts(Clock::now())[0];
  EXPECT_EQ(facts.tensor, "conv1.weight");
  EXPECT_EQ(facts.missing, missing);
  writer.explain(std::string(1000, 'x'), std::vector<int>(100, 5));
  facts = page->facts(Clock::now())[0];
  EXPECT_EQ(facts.tensor, std::string(kMostTensorName, 'x'));
  EXPECT_EQ(facts.missing.size(), kMostMissing);
  writer.end(outer);
  std::this_thread::sleep_for(milliseconds(1));
  (void)writer.begin(WaitKind::kPeers);
  facts = page->facts(Clock::now())[0];
  EXPECT_EQ(facts.wait, WaitKind::kPeers);
  EXPECT_TRUE(facts.tensor.empty());
}

TEST(StatusPage, ARestartedRankDoesNotWaitAsTheOneBefore) {
  auto page = StatusPage::create(1);
  ASSERT_TRUE(page) << page.error().message();
  const Env env = rank_env(*page, 0, 1);
  const pid_t first = ::fork();
  if (first == 0) {
    auto writer = StatusWriter::of_process(env);
    writer.step();
    (void)writer.begin(WaitKind::kPeers);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(first, nullptr, 0), first);
  EXPECT_EQ(page->facts(Clock::now())[0].wait, WaitKind::kPeers);
  const auto second = StatusWriter::of_process(env);
  EXPECT_EQ(page->facts(Clock::now())[0].wait, WaitKind::kNone);
  EXPECT_EQ(page->facts(Clock::now())[0].steps, 1U);  // of the rank, not of the process
}

// In a container, under another launcher, with a file that is something else.
TEST(StatusPage, WithoutAPageNothingHappens) {
  auto page = StatusPage::create(1);
  ASSERT_TRUE(page) << page.error().message();
  const auto with = [](std::map<std::string, std::string, std::less<>> variables) {
    auto writer = StatusWriter::of_process(Env(std::move(variables)));
    writer.step();
    writer.operation();
    const StatusWait wait(writer, WaitKind::kData);
    writer.explain("x", {});
    return writer.job_size();
  };
  EXPECT_EQ(with({}), 0);
  EXPECT_EQ(with({{kStatusVariable, page->path()}}), 0);
  EXPECT_EQ(with({{kStatusVariable, "/no/where"}, {"XOE_LOCAL_RANK", "0"}, {"XOE_SIZE", "1"}}), 0);
  EXPECT_EQ(with({{kStatusVariable, "/dev/null"}, {"XOE_LOCAL_RANK", "0"}, {"XOE_SIZE", "1"}}), 0);
  EXPECT_EQ(with({{kStatusVariable, page->path()}, {"XOE_LOCAL_RANK", "1"}, {"XOE_SIZE", "2"}}), 0);  // one rank only
  EXPECT_EQ(page->facts(Clock::now())[0], RankFacts());
}

TEST(StatusFacts, SurviveTheWay) {
  const std::vector<RankFacts> facts = {{},
                                        {.joined = true,
                                         .steps = 1'000'000,
                                         .operations = 3,
                                         .peers = milliseconds(17),
                                         .data = milliseconds(4),
                                         .wait = WaitKind::kPeers,
                                         .waited = milliseconds(2),
                                         .tensor = "conv1.weight",
                                         .missing = {1, 2, 70'000}}};
  const std::string text = encode_facts(facts);
  const auto read = decode_facts(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, facts);
  for (std::size_t length = 0; length < text.size(); ++length) EXPECT_FALSE(decode_facts(text.substr(0, length)));
  EXPECT_FALSE(decode_facts(text + "x"));
}

}  // namespace
}  // namespace xoe::bootstrap

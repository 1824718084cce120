#include "launch/output/panel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "core/base/error.h"

namespace xoe::launch {
namespace {

using bootstrap::RankFacts;
using bootstrap::WaitKind;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

const Panel::Clock::time_point kBegan{seconds(1000)};

class Panels : public testing::Test {
 protected:
  explicit Panels(std::size_t ranks = 4) { use(ranks); }

  void use(std::size_t ranks) {
    std::vector<std::string> tags;
    for (std::size_t i = 0; i < ranks; ++i) tags.push_back(fmt::format("[{}] ", i));
    panel_.emplace(std::move(tags), kBegan);
    facts_.assign(ranks, {.joined = true});
    last_lines_.assign(ranks, "");
  }
  void at(std::chrono::nanoseconds time) {
    std::vector<RankSample> samples;
    for (const RankFacts& facts : facts_) samples.push_back({.at = kBegan + time, .facts = facts});
    panel_->observe(samples, kBegan + time);
  }
  std::vector<std::string> lines(std::size_t height = 24) {
    return panel_->lines(last_lines_, {.color = false, .width = 80, .height = height});
  }

  std::optional<Panel> panel_;
  std::vector<RankFacts> facts_;
  std::vector<std::string> last_lines_;
};

TEST_F(Panels, NothingIsShownBeforeARankHasJoined) {
  facts_.assign(4, {});
  at(seconds(2));
  EXPECT_THAT(lines(), IsEmpty());
  facts_[2].joined = true;
  at(seconds(3));
  EXPECT_THAT(lines(), SizeIs(5));
  EXPECT_THAT(lines()[1], HasSubstr("starting"));
}

TEST_F(Panels, ShortJobsShowNone) { EXPECT_EQ(panel_->next_draw(), kBegan + seconds(1)); }

TEST_F(Panels, RatesAndLastLines) {
  last_lines_ = {"epoch 3: loss 0.22", "", "", ""};
  for (int i = 0; i <= 20; ++i) {
    facts_[0].steps = static_cast<std::uint64_t>(6 * i);
    facts_[1].operations = static_cast<std::uint64_t>(100 * i);
    facts_[2].steps = static_cast<std::uint64_t>(i / 8);
    at(milliseconds(500) * i);
  }
  EXPECT_THAT(lines()[0], StartsWith("-- 4 ranks, 10 s --"));
  EXPECT_THAT(lines()[1], StartsWith("[0] 12 steps/s "));
  EXPECT_THAT(lines()[1], HasSubstr("  epoch 3: loss 0.22"));
  EXPECT_THAT(lines()[2], StartsWith("[1] 200 ops/s "));
  EXPECT_THAT(lines()[3], StartsWith("[2] 5 s/step "));
  EXPECT_THAT(lines()[4], StartsWith("[3]              "));
}

TEST_F(Panels, SharesOfTheLastSeconds) {
  for (int i = 0; i <= 20; ++i) {
    facts_[0].peers = milliseconds(5) * i;
    facts_[1].peers = milliseconds(170) * i;
    facts_[1].data = milliseconds(100) * i;
    facts_[2].data = i < 10 ? milliseconds(0) : milliseconds(400) * (i - 10);
    at(milliseconds(500) * i);
  }
  EXPECT_THAT(lines()[1], HasSubstr("computing"));
  EXPECT_THAT(lines()[2], HasSubstr("waits for peers 34 %"));
  EXPECT_THAT(lines()[3], HasSubstr("waits for data 80 %"));
}

TEST_F(Panels, ALongWaitNamesTensorAndRank) {
  for (const std::size_t rank : {0U, 1U, 3U})
    facts_[rank] = {.joined = true,
                    .wait = WaitKind::kPeers,
                    .waited = seconds(12) + milliseconds(400),
                    .tensor = "layer1.weight",
                    .missing = {2}};
  facts_[2].wait = WaitKind::kData;
  facts_[2].waited = seconds(13);
  at(seconds(20));
  EXPECT_THAT(lines()[1], HasSubstr("waits 12 s for rank 2: layer1.weight"));
  EXPECT_THAT(lines()[3], HasSubstr("waits 13 s for data; 3 ranks wait for it"));
  // Ranks of other hosts are not known by number.
  facts_[0].missing.clear();
  at(seconds(21));
  EXPECT_THAT(lines()[1], HasSubstr("waits 12 s for peers: layer1.weight"));
  facts_[0].missing = {1, 2, 3};
  at(seconds(22));
  EXPECT_THAT(lines()[1], HasSubstr("waits 12 s for ranks 1, 2, 3: layer1.weight"));
}

TEST_F(Panels, RanksThatEnded) {
  at(seconds(2));
  panel_->ended(1, "exited with code 3");
  EXPECT_THAT(lines()[2], HasSubstr("exited with code 3"));
  panel_->restarted(1);
  at(seconds(3));
  EXPECT_THAT(lines()[2], Not(HasSubstr("exited")));
}

TEST_F(Panels, AThirdOfTheTerminalAtMost) {
  use(16);
  at(seconds(2));
  EXPECT_THAT(lines(60), SizeIs(17));
  EXPECT_THAT(lines(24), SizeIs(8));
  EXPECT_EQ(lines(24).back(), "and 10 more ranks");
  EXPECT_THAT(lines(24)[6], StartsWith("[5]"));
  EXPECT_THAT(lines(12), SizeIs(4));
  EXPECT_THAT(lines(11), IsEmpty());
  // A rank that others wait for has its row.
  facts_[3] = {.joined = true, .wait = WaitKind::kPeers, .waited = seconds(2), .tensor = "x", .missing = {14}};
  at(seconds(3));
  EXPECT_THAT(lines(24)[6], StartsWith("[14]"));
  EXPECT_THAT(lines(24)[6], HasSubstr("1 rank waits for it"));
}

TEST_F(Panels, TheLastRowIsARankWhereNoneIsLeftOut) {
  use(7);
  at(seconds(2));
  EXPECT_THAT(lines(24), SizeIs(8));
  EXPECT_THAT(lines(24).back(), StartsWith("[6]"));
}

}  // namespace
}  // namespace xoe::launch

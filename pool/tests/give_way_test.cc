// Holders who are asked to give way to a more important lease, and those who said that they would.
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using ::testing::ElementsAre;

class GivesWay : public PoolTest {
 protected:
  GivesWay()
      : PoolTest({.min_runtime = minutes(0), .give_way = GiveWayPolicy::kReclaim, .give_way_grace = minutes(5)}) {}
};

TEST_F(GivesWay, ToAMoreImportantLeaseWhichStartsAsItWasSaid) {
  const auto holder = acquire(ann_, {.gpus = 4}).value();
  now_ += seconds(1);
  const auto urgent = acquire(lead_, {.priority = 5, .wait = true}).value();
  const Time said = lease(urgent).starts.value();
  EXPECT_EQ(said, now_ + minutes(5));
  turn([&] { EXPECT_FALSE(pool_.renew(ann_, holder, token_number(1), std::chrono::hours(9))); });
  for (int i = 0; i < 5; ++i) {
    pool_.touch(urgent, now_);
    pass(minutes(1));
  }
  EXPECT_EQ(lease(urgent).begins, said);
  EXPECT_EQ(lease(holder).why, fmt::format("gave way to lease {}", urgent));
}

TEST_F(GivesWay, NotIfThatOneNoLongerWaits) {
  const auto holder = acquire(ann_, {.gpus = 4}).value();
  now_ += seconds(1);
  const auto urgent = acquire(lead_, {.priority = 5, .wait = true}).value();
  EXPECT_TRUE(lease(holder).give_way);
  turn([&] { EXPECT_TRUE(pool_.release(lead_, urgent, token_number(2), "found another way")); });
  EXPECT_FALSE(lease(holder).give_way);
  pass(minutes(10));
  EXPECT_TRUE(lease(holder).is_open());
  EXPECT_THAT(events(holder), ElementsAre("asked", "granted", "give-way", "give-way-over"));
}

// Planned first, it would call the holder, and move the lease that waits to a later time.
TEST_F(GivesWay, NotToARequestThatIsRefusedAtOnce) {
  const auto holder = acquire(ann_, {.gpus = 4}).value();
  const auto waiting = acquire(bob_, {.gpus = 4, .wait = true}).value();
  const auto starts = lease(waiting).starts;
  now_ += seconds(1);
  const auto refused = acquire(lead_, {.gpus = 4, .priority = 5}).value();
  EXPECT_EQ(lease(refused).state, LeaseState::kEnded);
  EXPECT_THAT(lease(refused).why, ::testing::HasSubstr("refused: "));
  EXPECT_FALSE(lease(holder).give_way);
  EXPECT_EQ(lease(waiting).starts, starts);
  pass(minutes(1));
  EXPECT_THAT(events(holder), ElementsAre("asked", "granted"));
  EXPECT_THAT(events(waiting), ElementsAre("asked"));
}

class Yields : public PoolTest {
 protected:
  Yields() : PoolTest({.give_way = GiveWayPolicy::kOff, .give_way_grace = minutes(5)}) {}
  LeaseRequest yielding() const { return {.yields = true, .priority = -1, .wait = true}; }
};

TEST_F(Yields, ALeaseThatSaidSoAtAnyTimeAndWhateverTheRule) {
  const auto base = acquire(ann_, {.gpus = 2}).value();
  const auto first = acquire(ann_, yielding()).value();
  const auto second = acquire(ann_, yielding()).value();
  now_ += seconds(1);
  const auto other = acquire(bob_, {.wait = true}).value();
  EXPECT_FALSE(lease(base).give_way);
  EXPECT_NE(lease(first).give_way.has_value(), lease(second).give_way.has_value());
  EXPECT_EQ(lease(other).starts, now_ + minutes(5));
  const auto asked = lease(first).give_way ? first : second;
  const auto token = token_number(asked == first ? 2 : 3);
  now_ += seconds(1);
  turn([&] { EXPECT_TRUE(pool_.release(ann_, asked, token, "released")); });
  EXPECT_EQ(lease(other).begins, now_);
}

TEST_F(Yields, NotToARequestThatIsRefusedAtOnce) {
  ASSERT_TRUE(acquire(ann_, {.gpus = 3}));
  const auto extra = acquire(ann_, yielding()).value();
  now_ += seconds(1);
  EXPECT_EQ(lease(acquire(bob_, {}).value()).state, LeaseState::kEnded);
  EXPECT_FALSE(lease(extra).give_way);
  EXPECT_THAT(events(extra), ElementsAre("asked", "granted"));
}

TEST_F(Yields, OneAfterTheOtherAlthoughTheyStandInTheQueueAgain) {
  ASSERT_TRUE(acquire(ann_, {.gpus = 1}));
  std::vector<std::int64_t> extras;
  for (int i = 0; i < 3; ++i) extras.push_back(acquire(ann_, yielding()).value());
  for (int i = 0; i < 3; ++i) {
    now_ += seconds(1);
    const auto other = acquire(bob_, {.wait = true}).value();
    std::int64_t asked = 0;
    for (const auto extra : extras)
      if (lease(extra).is_open() && lease(extra).give_way) asked = extra;
    ASSERT_NE(asked, 0) << i;
    now_ += seconds(1);
    turn([&] { EXPECT_TRUE(pool_.revoke(admin_, asked, "left")); });
    EXPECT_TRUE(lease(other).is_open());
    extras.push_back(acquire(ann_, yielding()).value());
    EXPECT_TRUE(lease(extras.back()).is_waiting());
  }
}

TEST_F(Yields, NotToItsEquals) {
  ASSERT_TRUE(acquire(ann_, {.gpus = 3}));
  const auto extra = acquire(ann_, yielding()).value();
  now_ += seconds(1);
  LeaseRequest same = yielding();
  ASSERT_TRUE(acquire(bob_, same));
  EXPECT_FALSE(lease(extra).give_way);
}

}  // namespace
}  // namespace xoe::pool::testing

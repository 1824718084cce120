// Leases for GPUs that are used already: what they may not take from those that wait.
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Adoption : public PoolTest {
 protected:
  // Half a minute, with a process of bob on these GPUs.
  void pass_with_use(std::initializer_list<std::size_t> gpus, Span time = seconds(30)) {
    pass(time, [&](HostReport& report) {
      for (const std::size_t gpu : gpus) report.activity[gpu].processes = {{.pid = 7, .user = "bob"}};
    });
  }

  // Why not; empty: it is adopted.
  std::string adopt(LeaseRequest request) {
    std::string why;
    turn([&] {
      const auto id = pool_.adopt(bob_, request, token_number(++tokens_));
      if (id) return;
      EXPECT_EQ(id.error().code(), request.at ? Code::kInvalidArgument : Code::kResourceExhausted);
      why = id.error().message();
    });
    return why;
  }
};

TEST_F(Adoption, AReservationKeepsItsStart) {
  const Time start = now_ + minutes(10);
  const auto reserved = acquire(ann_, {.gpus = 4, .at = start}).value();
  EXPECT_EQ(lease(acquire(bob_, {.gpus = 1}).value()).state, LeaseState::kEnded);
  pass_with_use({0});
  const std::string cannot = "adopt: the lease cannot go on until";
  const std::string whose = fmt::format("lease {} of ann starts at {}", reserved, time_text(start));
  EXPECT_THAT(adopt({.exact = {"GPU-a0"}}), AllOf(HasSubstr(cannot), HasSubstr(whose)));
  pool_ = after_restart();
  pass_with_use({0});
  EXPECT_THAT(adopt({.exact = {"GPU-a0"}}), AllOf(HasSubstr(cannot), HasSubstr(whose)));
  EXPECT_EQ(adopt({.duration = minutes(5), .exact = {"GPU-a0"}}), "");
  pass(minutes(9));
  EXPECT_TRUE(lease(reserved).is_open());
  EXPECT_EQ(lease(reserved).begins, start);
}

TEST_F(Adoption, AReservationOfOtherGpusIsNotInTheWay) {
  const auto reserved = acquire(ann_, {.gpus = 3, .at = now_ + minutes(10)}).value();
  pass_with_use({0});
  EXPECT_EQ(adopt({.exact = {"GPU-a0"}}), "");
  pass_with_use({0}, minutes(10));
  EXPECT_THAT(lease(reserved).gpus, ElementsAre("GPU-a1", "GPU-a2", "GPU-a3"));
}

// Else a program that goes on after its lease would be before all who wait.
TEST_F(Adoption, AStartThatTheUseHasTakenAwayIsKept) {
  const auto first = acquire(bob_, {.gpus = 4, .duration = minutes(10)}).value();
  const auto waits = acquire(ann_, {.gpus = 4, .wait = true}).value();
  pass_with_use({0, 1, 2, 3}, minutes(11));
  EXPECT_EQ(lease(first).state, LeaseState::kEnded);
  EXPECT_FALSE(lease(waits).starts);
  EXPECT_THAT(adopt({.exact = {"GPU-a0"}}), HasSubstr(fmt::format("lease {} of ann starts at", waits)));
}

TEST_F(Adoption, WhoWasNeverToldAStartIsNotInTheWay) {
  pass_with_use({0, 1, 2, 3});
  const auto waits = acquire(ann_, {.gpus = 4, .wait = true}).value();
  EXPECT_FALSE(lease(waits).starts);
  EXPECT_EQ(adopt({.exact = {"GPU-a0"}}), "");
}

TEST_F(Adoption, ARenewalKeepsAStartThatUseHasTakenAway) {
  const auto first = acquire(bob_, {.gpus = 2, .duration = minutes(10)}).value();
  const auto waits = acquire(ann_, {.gpus = 4, .wait = true}).value();
  pass_with_use({0, 1, 2, 3});
  EXPECT_FALSE(lease(waits).starts);
  turn([&] {
    EXPECT_THAT(pool_.renew(bob_, first, {}, minutes(60)).error().message(),
                HasSubstr(fmt::format("lease {} cannot go on until", first)));
    EXPECT_TRUE(pool_.renew(bob_, first, {}, minutes(5)));
  });
}

TEST_F(Adoption, BeginsNow) {
  pass_with_use({0});
  EXPECT_THAT(adopt({.at = now_ + minutes(10), .exact = {"GPU-a0"}}), HasSubstr("adopt: at: "));
}

}  // namespace
}  // namespace xoe::pool::testing

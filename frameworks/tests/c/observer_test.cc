// Which calls of compiled programs are shown to Python.
#include "frameworks/plugins/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xoe::plugins {
namespace {

std::vector<std::int64_t> looked;  // numbers of calls, in order

int look(std::int64_t number, const Observed*, std::size_t) {
  looked.push_back(number);
  return 1;
}

class ObserverTest : public testing::Test {
 protected:
  void SetUp() override {
    looked.clear();
    observer_.connect(&look);
  }
  void show(std::int64_t number) {
    observer_.show(number, seen_, [] { return std::vector<Observed>(); });
  }
  Observer observer_;
  SeenIn seen_ = 0;
};

TEST_F(ObserverTest, ACallIsShownUntilPythonHasSeenEnough) {
  for (int i = 0; i < 3; ++i) show(1);
  EXPECT_THAT(looked, testing::ElementsAre(1));
  observer_.begin_again();
  for (int i = 0; i < 3; ++i) show(1);
  EXPECT_THAT(looked, testing::ElementsAre(1, 1));
}

// Call 1,025 of a process shares its flag with the first one.
TEST_F(ObserverTest, ACallThatSharesAFlagIsShownToo) {
  show(1);
  show(1025);
  EXPECT_THAT(looked, testing::ElementsAre(1, 1025));
}

}  // namespace
}  // namespace xoe::plugins

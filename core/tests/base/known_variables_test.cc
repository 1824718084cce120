#include "core/base/known_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace xoe {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

std::vector<std::string> misspelt(Values values) { return misspelt_variables(Env(std::move(values))); }

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(KnownVariables, TheNearestNameIsTold) {
  EXPECT_THAT(misspelt({{"XOE_FUSION_TRESHOLD", "1M"}}),
              ElementsAre("XOE_FUSION_TRESHOLD is set, but is no variable of Xoe; did you mean XOE_FUSION_THRESHOLD?"));
  EXPECT_THAT(misspelt({{"XOE_TIMELIEN", "t.json"}}), ElementsAre(HasSubstr("XOE_TIMELINE?")));
  EXPECT_THAT(misspelt({{"XOE_STALL", "3"}}), ElementsAre(HasSubstr("XOE_STALL_")));
}

TEST(KnownVariables, OthersAreTheUsersOwn) {
  EXPECT_THAT(misspelt({{"XOE_MY_DATA", "x"}, {"XOE", "1"}, {"XOE_", "1"}, {"TIMELIEN", "1"}}), IsEmpty());
}

TEST(KnownVariables, NoneOfThemIsMisspelt) {
  Values all;
  for (const std::string_view name : known_variables()) all.emplace(name, "1");
  EXPECT_THAT(misspelt(std::move(all)), IsEmpty());
}

}  // namespace
}  // namespace xoe

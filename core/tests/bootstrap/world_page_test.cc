// A rank reads in the world page what the launcher wants of it.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>

#include <fmt/format.h>

#include "core/bootstrap/world_page.h"

namespace xoe::bootstrap {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

WorldView view_of(const WorldPage& page, int slot) {
  return WorldView::of_process(Env(Variables{{kWorldVariable, page.path()}, {"XOE_RANK", fmt::format("{}", slot)}}))
      .value();
}

TEST(WorldPage, TellsEachRankWhetherItStaysLeavesOrJoinsAnother) {
  auto page = WorldPage::create();
  ASSERT_TRUE(page) << page.error().message();
  const WorldView first = view_of(*page, 0), last = view_of(*page, kMostSlots - 1);
  ASSERT_TRUE(first.may_change() && last.may_change());
  const std::array both{0, kMostSlots - 1};
  EXPECT_FALSE(first.is_newcomer()) << "nothing is published yet";
  page->publish(0, both);
  EXPECT_EQ(first.change(0), WorldView::Change::kStay);
  EXPECT_FALSE(first.is_newcomer());
  EXPECT_TRUE(view_of(*page, 1).is_newcomer()) << "in the first version, too";
  page->publish(1, std::array{0});
  EXPECT_EQ(first.change(0), WorldView::Change::kReForm);
  EXPECT_EQ(last.change(0), WorldView::Change::kLeave);
  EXPECT_TRUE(last.is_newcomer());
  EXPECT_EQ(first.change(1), WorldView::Change::kStay);
  page->publish(2, both);
  EXPECT_EQ(last.change(0), WorldView::Change::kReForm);
}

TEST(WorldPage, WithoutOneTheWorldNeverChanges) {
  const auto view = WorldView::of_process(Env(Variables{{"XOE_RANK", "0"}}));
  ASSERT_TRUE(view);
  EXPECT_FALSE(view->may_change());
  EXPECT_FALSE(view->is_newcomer());
  EXPECT_EQ(view->change(0), WorldView::Change::kStay);
}

TEST(WorldPage, SaysWhyItCannotBeUsed) {
  for (const char* path : {"/nowhere", "/dev/null", "/proc/self/exe"}) {
    const auto view = WorldView::of_process(Env(Variables{{kWorldVariable, path}, {"XOE_RANK", "0"}}));
    ASSERT_FALSE(view) << path;
    EXPECT_EQ(view.error().code(), Code::kInvalidArgument);
    EXPECT_NE(view.error().message().find(path), std::string::npos) << view.error().message();
  }
}

}  // namespace
}  // namespace xoe::bootstrap

#include "core/command_line/terminal.h"

#include <gtest/gtest.h>

namespace xoe::command_line {
namespace {

TEST(Fitted, CountsColumnsNotBytes) {
  EXPECT_EQ(fitted("epoch 3", 20), "epoch 3");
  EXPECT_EQ(fitted("epoch 3", 5), "epoch");
  EXPECT_EQ(fitted("50%|█████▌  |", 10), "50%|█████▌") << "blocks are one column each";
  EXPECT_EQ(fitted("训练中 3", 6), "训练中");
  EXPECT_EQ(fitted("训练中 3", 5), "训练") << "half a character has no room, and what is behind it does not move up";
  EXPECT_EQ(fitted("🚀 go", 4), "🚀 g");
  EXPECT_EQ(fitted("✅ ⚡ok", 5), "✅ ⚡");
  EXPECT_EQ(fitted("cafe\u0301s", 4), "cafe\u0301") << "a mark has no column of its own";
  EXPECT_EQ(fitted("cafe\u0301s", 3), "caf");
}

TEST(Fitted, KeepsColoursAndDropsOtherSequences) {
  EXPECT_EQ(fitted("\x1b[31mred\x1b[0m", 2), "\x1b[31mre\x1b[0m\x1b[0m");
  EXPECT_EQ(fitted("a\x1b[2Kb\tc", 10), "ab c");
}

TEST(Fitted, TakesBrokenText) {
  EXPECT_EQ(fitted("\xff\xfe", 1), "\xff");
  EXPECT_EQ(fitted("\x80\x80\x80\x80\x80\x80", 3), "\x80\x80\x80\x80\x80\x80") << "one character that never began";
  EXPECT_EQ(fitted("\xe8\xae", 4), "\xe8\xae");
}

}  // namespace
}  // namespace xoe::command_line

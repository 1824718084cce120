#include "core/command_line/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"

namespace xoe::command_line {
namespace {

using testing::HasSubstr;

TEST(Help, HasOptionsUnderTheirHeadings) {
  Command command{.name = "xoe cook", .what = "cooks."};
  command.operands.push_back({.names = {"DISH"}, .what = "what to cook", .repeated = true});
  command.options.push_back({.names = {"-s", "--salt"}, .value = "N", .what = "grains", .fallback = "3"});
  command.options.push_back({.names = {"--heat"}, .value = "NAME", .choices = {"low", "high"}, .group = "Oven"});
  command.footer = "Example:\n  xoe cook soup";
  EXPECT_EQ(help_text(command),
            "xoe cook: cooks.\n\n"
            "Usage: xoe cook [options] DISH...\n\n"
            "Operands:\n"
            "  DISH                    what to cook\n\n"
            "Options:\n"
            "  -s, --salt N            grains (default: 3)\n\n"
            "Oven:\n"
            "  --heat low|high\n\n"
            "Example:\n  xoe cook soup\n");
}

TEST(Help, LongTextIsWrappedBehindTheColumn) {
  Command command{.name = "xoe cook", .what = "cooks."};
  std::string text = "word";
  for (int i = 0; i < 60; ++i) text += " word" + std::to_string(i);
  command.options.push_back({.names = {"--a-very-long-name-of-an-option"}, .value = "SOMETHING", .what = text});
  const std::string help = help_text(command);
  for (const std::string& line : split_text(help, '\n')) EXPECT_LE(line.size(), kWidth) << line;
  EXPECT_THAT(help, HasSubstr("  --a-very-long-name-of-an-option SOMETHING\n" + std::string(26, ' ') + "word word0"));
  EXPECT_THAT(help, HasSubstr("word59\n"));
}

TEST(Help, AWordLongerThanALineStaysWhole) {
  const std::string word(200, 'x');
  EXPECT_EQ(wrapped(word, 4), word);
  EXPECT_EQ(wrapped("a " + word + " b", 4), "a\n    " + word + "\n    b");
}

}  // namespace
}  // namespace xoe::command_line

#include "core/command_line/command.h"

#include <gtest/gtest.h>

namespace xoe::command_line {
namespace {

Command example() {
  Command verb{.name = "xoe data make", .what = "renders\timages\nof all sorts"};
  verb.operands.push_back({.names = {"DIR"}, .value = "DIR", .what = "where to"});
  verb.options.push_back({.names = {"-f", "--format"}, .value = "NAME", .choices = {"tar", "folder"}});
  return {.name = "xoe data", .what = "data sets", .options = {{.names = {"--help"}, .what = "help"}}, .verbs = {verb}};
}

TEST(Command, TravelsAsText) {
  const auto read = decode(encode(example()));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->name, "xoe data");
  ASSERT_EQ(read->options.size(), 1U);
  EXPECT_TRUE(read->options[0].value.empty());
  ASSERT_EQ(read->verbs.size(), 1U);
  const Command& verb = read->verbs[0];
  EXPECT_EQ(verb.name, "xoe data make");
  EXPECT_EQ(verb.what, "renders images of all sorts");
  ASSERT_EQ(verb.operands.size(), 1U);
  EXPECT_EQ(verb.operands[0].names, std::vector<std::string>{"DIR"});
  ASSERT_EQ(verb.options.size(), 1U);
  EXPECT_EQ(verb.options[0].names, (std::vector<std::string>{"-f", "--format"}));
  EXPECT_EQ(verb.options[0].choices, (std::vector<std::string>{"tar", "folder"}));
}

TEST(Command, OtherTextIsRefused) {
  for (const std::string_view text :
       {"", "\n", "xoe 1.2\n", "option\t-v\t\t\twhat\n", "command\tx\ty\nword\t1\t2\t3\t4\n"})
    EXPECT_FALSE(decode(text)) << text;
}

TEST(Command, OneOfSeveral) {
  EXPECT_EQ(one_of({}), "");
  EXPECT_EQ(one_of({"a"}), "a");
  EXPECT_EQ(one_of({"a", "b"}), "a or b");
  EXPECT_EQ(one_of({"a", "b", "c"}), "a, b or c");
}

}  // namespace
}  // namespace xoe::command_line

// Text that anybody may have written.
#include "core/base/utf8.h"

#include <gtest/gtest.h>

namespace xoe {
namespace {

TEST(Utf8, TellsCharactersFromOtherBytes) {
  EXPECT_EQ(utf8_length(""), 0U);
  EXPECT_EQ(utf8_length("a"), 1U);
  EXPECT_EQ(utf8_length("\xc3\xa4"), 2U);
  EXPECT_EQ(utf8_length("\xf0\x9f\x8e\x89"), 4U);
  for (const char* bad : {"\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"})
    EXPECT_EQ(utf8_length(bad), 0U);
}

TEST(Utf8, OneLineOfItIsPrintable) {
  EXPECT_EQ(printable_utf8("a\tb\x7f\xc2\x9b\xe2\x82"), "a\uFFFDb\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(utf8_line("a\tb\x7f\xc2\x9b\xe2\x82"), "a\uFFFDb\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(utf8_line("gpu\u202e1"), "gpu\u202e1") << "data keeps it";
  EXPECT_EQ(printable_utf8("gpu\u202e1-edon"), "gpu\uFFFD1-edon") << "it would turn the rest of the line";
}

TEST(HiddenCharacters, AreNotWhatScriptsAndEmojiNeed) {
  for (const char* const text : {"\u2764\ufe0f", "\U0001f3f3\ufe0f\u200d\U0001f308", "\u0645\u06cc\u200c\u062e\u0648",
                                 "\u0915\u094d\u200d\u0937", "M\u00fcller \u65e5\u672c"}) {
    EXPECT_FALSE(has_hidden_characters(text)) << text;
    EXPECT_EQ(printable_utf8(text), text);
  }
  EXPECT_EQ(printable_utf8("a\u200db"), "a\uFFFDb") << "to ASCII they add nothing";
  EXPECT_EQ(printable_utf8("\u00fc\u200d\u200d"), "\u00fc\u200d\uFFFD");
  EXPECT_EQ(printable_utf8("a\xff\xe2\x80"), "a\uFFFD\uFFFD\uFFFD");
}

}  // namespace
}  // namespace xoe

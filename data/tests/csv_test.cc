#include "data/files/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tests/csv_field.h"

namespace xoe::data {
namespace {

using ::testing::ElementsAre;
using Rows = std::vector<std::vector<std::string>>;

Rows read(std::string_view text) {
  CsvReader reader(text);
  Rows rows;
  std::vector<std::string> row;
  while (reader.next(row).value()) rows.push_back(row);
  return rows;
}
std::string error(std::string_view text) {
  CsvReader reader(text);
  std::vector<std::string> row;
  for (;;) {
    const auto more = reader.next(row);
    if (!more) return std::to_string(reader.line()) + ": " + more.error().message();
    if (!*more) return "";
  }
}

// The rules of RFC 4180, one by one.
TEST(Csv, Rfc4180) {
  EXPECT_THAT(read(""), ElementsAre());
  EXPECT_THAT(read("aaa,bbb,ccc\r\nzzz,yyy,xxx\r\n"),
              ElementsAre(ElementsAre("aaa", "bbb", "ccc"), ElementsAre("zzz", "yyy", "xxx")));
  EXPECT_THAT(read("a,b\nc,d"), ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d")));
  EXPECT_THAT(read("\"a\",\"b\r\nbb\",\"c\"\r\n"), ElementsAre(ElementsAre("a", "b\r\nbb", "c")));
  EXPECT_THAT(read("\"a\"\"b\",c\n"), ElementsAre(ElementsAre("a\"b", "c")));
  EXPECT_THAT(read(",,\n,"), ElementsAre(ElementsAre("", "", ""), ElementsAre("", "")));
  EXPECT_THAT(read("a\n\nb\n"), ElementsAre(ElementsAre("a"), ElementsAre(""), ElementsAre("b")));
  EXPECT_THAT(read("\xef\xbb\xbf"
                   "a b , c\n"),
              ElementsAre(ElementsAre("a b ", " c")));
}

TEST(Csv, WhatIsWrongIsSaidWithItsLine) {
  EXPECT_EQ(error("a\nb\"c\n"), "2: a quote within a field that does not begin with one");
  EXPECT_EQ(error("a\n\"x\ny\"z\n"), "2: text behind a closing quote");
  EXPECT_EQ(error("a\nb\n\"c,\n"), "3: a quote is not closed");
}

TEST(Csv, RowsAreBounded) {
  EXPECT_EQ(read(std::string(65535, ',')).at(0).size(), 65536U);
  EXPECT_EQ(error("a\n" + std::string(65536, ',')), "2: a row of more than 65536 fields");
  EXPECT_EQ(error("a\n" + std::string(1 << 20, 'b') + "\n"), "2: a row of more than 1048576 bytes");
  EXPECT_EQ(error(std::string((1 << 20) - 1, 'b') + "\n" + std::string(1 << 19, 'c')), "");
}

TEST(Csv, FieldsAreQuotedWhereTheyMustBe) {
  std::string row;
  for (const char* field : {"plain", "a,b", "say \"x\"", "two\nlines"}) {
    if (!row.empty()) row += ',';
    append_csv_field(row, field);
  }
  EXPECT_EQ(row, "plain,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\"");
  EXPECT_THAT(read(row), ElementsAre(ElementsAre("plain", "a,b", "say \"x\"", "two\nlines")));
}

}  // namespace
}  // namespace xoe::data

#include "core/base/bytes.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "core/base/constant_time.h"

namespace xoe {
namespace {

TEST(Bytes, EveryKindOfFieldSurvivesTheTrip) {
  ByteWriter out;
  out.fixed(std::uint16_t{0x1234});
  out.fixed(std::int64_t{-5});
  out.varint(300);
  out.signed_varint(-300);
  out.text<std::uint32_t>("text");
  out.varint_text("more");
  out.raw("rest");
  EXPECT_EQ(out.bytes().substr(0, 2), "\x34\x12");
  ByteReader in(out.bytes());
  EXPECT_EQ(in.fixed<std::uint16_t>(), 0x1234);
  EXPECT_EQ(in.fixed<std::int64_t>(), -5);
  EXPECT_EQ(in.varint(), 300U);
  EXPECT_EQ(in.signed_varint(), -300);
  EXPECT_EQ(in.text<std::uint32_t>(), "text");
  EXPECT_EQ(in.varint_text(4), "more");
  EXPECT_TRUE(in.more());
  EXPECT_EQ(in.raw(in.left()), "rest");
  EXPECT_TRUE(in.at_end());
}

TEST(Bytes, ExtremeNumbers) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  ByteWriter out;
  out.varint(kMost);
  out.signed_varint(kLeast);
  ByteReader in(out.bytes());
  EXPECT_EQ(in.varint(), kMost);
  EXPECT_EQ(in.signed_varint(), kLeast);
  EXPECT_FALSE(ByteReader(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")).at_end());
  ByteReader too_long(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"));
  EXPECT_EQ(too_long.varint(), 0U);
  EXPECT_FALSE(too_long.ok());
}

TEST(Bytes, AReaderThatFailedStaysFailed) {
  ByteReader in(std::string_view("\x01\x02\x03"));
  EXPECT_EQ(in.fixed<std::uint32_t>(), 0U);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.fixed<std::uint8_t>(), 0U);
  EXPECT_EQ(in.left(), 0U);
  EXPECT_FALSE(in.at_end());
}

TEST(Bytes, BoundsAreChecked) {
  EXPECT_EQ(ByteReader(std::string_view("\x05")).fixed<std::uint8_t>(1, 4), 1);
  EXPECT_EQ(ByteReader(std::string_view("\x04")).fixed<std::uint8_t>(1, 4), 4);
  ByteReader length(std::string_view("\x05\x00\x00\x00vier", 8));
  EXPECT_EQ(length.text<std::uint32_t>(), "");
  EXPECT_FALSE(length.ok());
  ByteReader limit(std::string_view("\x03xyz"));
  EXPECT_EQ(limit.varint_text(2), "");
  EXPECT_FALSE(limit.ok());
  ByteReader items(std::string_view("\x02xyz"));
  EXPECT_EQ(items.varint_count(2), 0U) << "two items of two bytes do not fit into three";
}

TEST(FrameBuffer, FramesMayArriveInAnyPieces) {
  ByteWriter out;
  out.text<std::uint32_t>("one");
  out.text<std::uint32_t>("");
  out.text<std::uint32_t>("three");
  FrameBuffer stream;
  std::vector<std::string> bodies;
  for (const char byte : out.bytes()) {
    stream.append({&byte, 1});
    if (const auto body = stream.next(5)) bodies.emplace_back(*body);
  }
  EXPECT_EQ(bodies, (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(stream.partial(), 0U);
  stream.append(std::string_view("\x06\x00", 2));
  EXPECT_FALSE(stream.next_length());
  stream.append(std::string_view("\x00\x00sieben", 8));
  EXPECT_EQ(stream.next_length(), 6U);
  EXPECT_FALSE(stream.next(5)) << "beyond the limit";
  EXPECT_EQ(stream.next(6), "sieben");
}

TEST(ConstantTime, ComparesWholeTexts) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "abcd", "abcabc"})
    EXPECT_FALSE(equal_in_constant_time(other, "abc")) << other;
  EXPECT_FALSE(equal_in_constant_time("abc", ""));
}

}  // namespace
}  // namespace xoe

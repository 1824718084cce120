#include "core/bootstrap/store_protocol.h"

#include <gtest/gtest.h>

#include <string>

namespace xoe::bootstrap {
namespace {

std::string framed(std::string_view body) {
  ByteWriter out;
  out.text<std::uint32_t>(body);
  return std::move(out).take();
}

TEST(StoreProtocol, EveryMessageSurvivesTheTrip) {
  std::string bytes;
  append_hello(bytes, "secret");
  append_set(bytes, "key", std::string("a\0b", 3));
  append_get(bytes, "other");
  append_value(bytes, "");
  append_fail(bytes, Code::kTimeout, "why");
  append_remove(bytes, "key");
  FrameBuffer reader;
  std::vector<Frame> frames;
  std::vector<std::string> kept;
  kept.reserve(8);
  for (const char byte : bytes) {  // one byte at a time: frames may be cut anywhere
    reader.append({&byte, 1});
    const auto body = next_body(reader);
    ASSERT_TRUE(body);
    if (*body) frames.push_back(parse_body(kept.emplace_back(**body)).value());
  }
  ASSERT_EQ(frames.size(), 6U);
  EXPECT_FALSE(reader.partial());
  EXPECT_EQ(frames[0].kind, FrameKind::kHello);
  EXPECT_EQ(frames[0].value, "secret");
  EXPECT_EQ(frames[1].kind, FrameKind::kSet);
  EXPECT_EQ(frames[1].key, "key");
  EXPECT_EQ(frames[1].value, std::string_view("a\0b", 3));
  EXPECT_EQ(frames[2].kind, FrameKind::kGet);
  EXPECT_EQ(frames[2].key, "other");
  EXPECT_EQ(frames[3].kind, FrameKind::kValue);
  EXPECT_EQ(frames[4].kind, FrameKind::kFail);
  EXPECT_EQ(frames[4].code, Code::kTimeout);
  EXPECT_EQ(frames[4].value, "why");
  EXPECT_EQ(frames[5].kind, FrameKind::kRemove);
  EXPECT_EQ(frames[5].key, "key");
}

TEST(StoreProtocol, MalformedBodiesAreRefused) {
  for (const std::string& body :
       {std::string(), std::string("\x01 not the magic"), std::string("\x02"),
        std::string("\x02\x05\x00"
                    "ab",
                    5),
        std::string("\x02\x00\x00", 3), std::string("\x03"), "\x03" + std::string(kMaxKey + 1, 'k'),
        std::string("\x11"), std::string("\x11\x7f"), std::string("\x63"), "\x10" + std::string(kMaxValue + 1, 'v')}) {
    EXPECT_FALSE(parse_body(body)) << body.substr(0, 8);
  }
}

TEST(StoreProtocol, LengthsBeyondTheLimitEndTheStream) {
  FrameBuffer zero;
  zero.append(std::string(4, '\0'));
  EXPECT_FALSE(next_body(zero));
  FrameBuffer huge;
  huge.append("\xff\xff\xff\xff");
  EXPECT_FALSE(next_body(huge));
  FrameBuffer most;
  most.append(framed(std::string(kMaxFrame, 'x')));
  EXPECT_TRUE(next_body(most).value().has_value());
}

}  // namespace
}  // namespace xoe::bootstrap

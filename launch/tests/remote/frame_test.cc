#include "launch/remote/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xoe::remote {
namespace {

TEST(Frames, ACommandSurvivesTheWay) {
  const std::vector<std::string> command{"ssh", "", "a b\xff"};
  const std::string text = encode_texts(command);
  EXPECT_EQ(decode_texts(text).value(), command);
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(decode_texts(text.substr(0, size))) << size;
  EXPECT_FALSE(decode_texts(text + "x"));
  EXPECT_FALSE(decode_texts(encode_texts({})));
}

TEST(Frames, TheEndOfARankSurvivesTheWay) {
  const std::string text = encode(RankEnding{.ran = 5'000'000'000, .asked = true});
  EXPECT_EQ(decode_ending(text).value().ran, 5'000'000'000);
  EXPECT_TRUE(decode_ending(text).value().asked);
  EXPECT_FALSE(decode_ending(encode(RankEnding{})).value().asked);
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(decode_ending(text.substr(0, size))) << size;
  EXPECT_FALSE(decode_ending(text + "x"));
}

TEST(Frames, AnotherVersionIsStillNamed) {
  std::string hello =
      encode(Hello{.version = "9.9", .hostname = "h", .launcher = "l", .addresses = {"a"}, .cores = 4, .ranks = 2});
  EXPECT_EQ(decode_hello(hello).value().cores, 4);
  EXPECT_EQ(decode_hello(hello).value().ranks, 2);
  const auto longer = decode_hello(hello + "new fields");
  ASSERT_TRUE(longer);
  EXPECT_EQ(longer->version, "9.9");
  EXPECT_EQ(longer->cores, 0);
}

TEST(Frames, CutsAStreamAnywhere) {
  std::string stream(kAgentGreeting);
  append_frame(stream, {.kind = Frame::Kind::kEnded, .rank = 7, .value = -1, .pid = 1 << 30, .time = 123, .text = "t"});
  append_frame(stream, {.kind = Frame::Kind::kAlive});
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    FrameReader reader(true);
    int frames = 0;
    for (const std::string& chunk : {stream.substr(0, cut), stream.substr(cut)}) {
      reader.append(chunk);
      while (true) {
        const auto frame = reader.next();
        ASSERT_TRUE(frame) << cut;
        if (!*frame) break;
        if (++frames == 1) {
          EXPECT_EQ((*frame)->rank, 7);
          EXPECT_EQ((*frame)->value, -1);
          EXPECT_EQ((*frame)->pid, 1 << 30);
          EXPECT_EQ((*frame)->text, "t");
        }
      }
    }
    EXPECT_EQ(frames, 2) << cut;
  }
}

TEST(Frames, SkipsThePreambleOfALoginShell) {
  FrameReader reader(true);
  reader.append("Welcome!\n");
  EXPECT_FALSE(*reader.next());
  EXPECT_FALSE(reader.greeted());
  std::string rest(kAgentGreeting);
  append_frame(rest, {.kind = Frame::Kind::kAlive});
  reader.append(rest);
  EXPECT_TRUE(*reader.next());
  EXPECT_EQ(reader.preamble(), "Welcome!\n");
}

TEST(Frames, BoundsWhatItKeeps) {
  FrameReader talkative(true);
  talkative.append(std::string(kMaxPreamble + 1, 'x'));
  EXPECT_FALSE(talkative.next());
  FrameReader huge(false);
  huge.append("\xff\xff\xff\xff");
  EXPECT_FALSE(huge.next());
  FrameReader small(false);
  small.append(std::string("\x01\0\0\0\x01", 5));
  EXPECT_FALSE(small.next());
  for (const int kind : {0, 15, 37, 63, 82, 255}) {
    FrameReader unknown(false);
    std::string frame;
    append_frame(frame, {.kind = static_cast<Frame::Kind>(kind)});
    unknown.append(frame);
    EXPECT_FALSE(unknown.next()) << kind;
  }
}

}  // namespace
}  // namespace xoe::remote

#include "launch/output/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>

#include "launch/output/stream.h"

namespace xoe::launch {
namespace {

std::array<Fd, 2> make_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

std::string read_all(const Fd& fd) {
  std::string text;
  std::array<char, 65536> chunk;
  ssize_t count = 0;
  while ((count = ::read(fd.get(), chunk.data(), chunk.size())) > 0)
    text.append(chunk.data(), static_cast<std::size_t>(count));
  return text;
}

void put(const Fd& fd, std::string_view text) {
  ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(LineCutter, TagsWholeLines) {
  LineCutter cutter;
  std::string out;
  cutter.feed("a", "[0] ", out);
  EXPECT_EQ(out, "");
  cutter.feed("b\n\nc\nd", "[0] ", out);
  EXPECT_EQ(out, "[0] ab\n[0] \n[0] c\n");
  cutter.finish("[0] ", out);
  EXPECT_EQ(out, "[0] ab\n[0] \n[0] c\n[0] d\n");
  cutter.finish("[0] ", out);
  EXPECT_EQ(out, "[0] ab\n[0] \n[0] c\n[0] d\n");
}

TEST(LineCutter, EndlessLinesComeInPieces) {
  LineCutter cutter;
  std::string out;
  for (int i = 0; i < 100; ++i) cutter.feed(std::string(1000, 'x'), "", out);
  EXPECT_GE(out.size(), 64000U);
  EXPECT_LE(out.size(), 100000U);
}

TEST(LineCutter, WithoutTagsNothingIsAdded) {
  LineCutter cutter;
  std::string out;
  const std::string line = std::string(200'000, 'x') + "\n";
  cutter.feed(std::string_view(line).substr(0, 150'000), "", out);
  cutter.feed(std::string_view(line).substr(150'000), "", out);
  EXPECT_EQ(out, line);
}

TEST(Sink, NeverBlocksAndLosesNothing) {
  auto [reader, writer] = make_pipe();
  Sink sink(writer.get());
  const std::string line(999, 'x');
  for (int i = 0; i < 1200; ++i) sink.write(line + "\n");
  EXPECT_TRUE(sink.full());
  sink.flush();  // the pipe takes 64 KiB, and no process reads it
  EXPECT_FALSE(sink.empty());
  std::string seen;
  while (!sink.empty()) {
    seen += read_all(reader);
    sink.flush();
  }
  seen += read_all(reader);
  EXPECT_EQ(seen.size(), 1200000U);
  EXPECT_FALSE(sink.full());
}

TEST(Sink, AReaderThatLeftIsAnError) {
  ::signal(SIGPIPE, SIG_IGN);
  auto [reader, writer] = make_pipe();
  Sink sink(writer.get());
  reader = Fd();
  sink.write("x");
  sink.flush();
  EXPECT_EQ(sink.error(), EPIPE);
  sink.write("y");
  EXPECT_TRUE(sink.empty());
}

TEST(Output, OneFileHasOneQueue) {
  auto [reader, writer] = make_pipe();
  const Fd again(::dup(writer.get()));
  Output same(writer.get(), again.get());
  EXPECT_EQ(&same.out(), &same.err());
  auto [other_reader, other_writer] = make_pipe();
  Output different(writer.get(), other_writer.get());
  EXPECT_NE(&different.out(), &different.err());
}

TEST(Stream, CarriesKeepsAndRemembers) {
  auto [out_reader, out_writer] = make_pipe();
  Sink sink(out_writer.get());
  auto [reader, writer] = make_pipe();
  Stream stream(std::move(reader), Fd(), "", "[7] ", sink);
  put(writer, "one\ntwo\nthr");
  stream.pump();
  put(writer, "ee");
  stream.pump();
  writer = Fd();
  stream.pump();
  EXPECT_FALSE(stream.open());
  sink.flush();
  EXPECT_EQ(read_all(out_reader), "[7] one\n[7] two\n[7] three\n");
  EXPECT_THAT(stream.last_lines(2), testing::ElementsAre("two", "three"));
  EXPECT_THAT(stream.last_lines(9), testing::ElementsAre("one", "two", "three"));
}

TEST(Stream, LastLinesAreBounded) {
  auto [out_reader, out_writer] = make_pipe();
  Sink sink(out_writer.get());
  auto [reader, writer] = make_pipe();
  Stream stream(std::move(reader), Fd(), "", "", sink);
  for (int i = 0; i < 1000; ++i) {
    put(writer, "line " + std::to_string(i) + " " + std::string(90, '.') + "\n");
    stream.pump();
  }
  const auto lines = stream.last_lines(100);
  ASSERT_GE(lines.size(), 30U);
  EXPECT_LE(lines.size(), 41U);
  EXPECT_TRUE(lines.front().starts_with("line ")) << lines.front();
  EXPECT_TRUE(lines.back().starts_with("line 999"));
}

}  // namespace
}  // namespace xoe::launch

#include "launch/output/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <array>

#include "launch/output/job_streams.h"
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
  LineCutter cutter(LineCutter::Bars::kPass);
  std::string out;
  const std::string line = std::string(200'000, 'x') + "\n";
  cutter.feed(std::string_view(line).substr(0, 150'000), "", out);
  cutter.feed(std::string_view(line).substr(150'000), "", out);
  EXPECT_EQ(out, line);
}

// The lines, when the bytes come in pieces of every size; the unfinished ones are put into `live`.
std::string cut(const std::string& bytes, std::vector<std::string>* live = nullptr) {
  std::string whole;
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    LineCutter cutter;
    std::string out;
    for (std::size_t at = 0; at < bytes.size(); at += size)
      cutter.feed(std::string_view(bytes).substr(at, size), "", out);
    const auto shown = cutter.live();
    if (live != nullptr) {
      if (size > 1) {
        EXPECT_EQ(*live, shown);
      }
      *live = shown;
    }
    cutter.finish("", out);
    EXPECT_TRUE(cutter.live().empty());
    if (size > 1) {
      EXPECT_EQ(whole, out);
    }
    whole = out;
  }
  return whole;
}

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LineCutter, OfABarTheLastStateBecomesALine) {
  EXPECT_EQ(cut("\r 0%\r 50%\r100%\nnext\n"), "100%\nnext\n");
  EXPECT_EQ(cut("10%\r20%\r"), "20%\n");
  EXPECT_EQ(cut("\r 0%\r100%\n\r 0%\r100%\n"), "100%\n100%\n");
  EXPECT_EQ(cut("\r 50%\r     \rwritten\n\r 60%\r 70%"), "written\n 70%\n");
}

TEST(LineCutter, WhatIsUnfinishedIsLive) {
  std::vector<std::string> live;
  cut("line\n\r 0%\r 50%  ", &live);
  EXPECT_THAT(live, ElementsAre(" 50%"));
  cut("\r 0%\r100%\ndone\nname: ", &live);
  EXPECT_THAT(live, ElementsAre("name: "));
  cut("line\n", &live);
  EXPECT_THAT(live, IsEmpty());
}

TEST(LineCutter, BarsBelowEachOther) {
  const std::string below = "\n\rinner 1\x1b[A";
  std::vector<std::string> live;
  EXPECT_EQ(cut("\router 0" + below + "\n\rinner 2\x1b[A\router 1\n\rinner 3\x1b[A", &live), "outer 1\ninner 3\n");
  EXPECT_THAT(live, ElementsAre("outer 1", "inner 3"));
  // The inner bar is erased, the outer one ends, and ordinary lines follow.
  EXPECT_EQ(cut("\router 0" + below + "\n\r       \x1b[A\router 2\nafter\n"), "outer 2\nafter\n");
  // The inner bar stays, in the outer one's place, and another begins.
  EXPECT_EQ(cut("\router 0" + below + "\rinner 9\n\router 1\r\router 2"), "inner 9\nouter 2\n");
}

// What comes out when nothing follows `bytes` for a while; and then, when `rest` follows.
std::array<std::string, 2> flushed(const std::string& bytes, const std::string& rest) {
  LineCutter cutter;
  std::array<std::string, 2> out;
  cutter.feed(bytes, "", out[0]);
  EXPECT_EQ(out[0], "");
  EXPECT_TRUE(cutter.has_open_bar());
  cutter.flush_bar("", out[0]);
  EXPECT_FALSE(cutter.has_open_bar());
  cutter.feed(rest, "", out[1]);
  cutter.finish("", out[1]);
  return out;
}

TEST(LineCutter, ABarThatEndedIsALineThoughNothingFollows) {
  EXPECT_EQ(flushed("\r 0%\r100%\n", "next\n"), (std::array<std::string, 2>{"100%\n", "next\n"}));
  EXPECT_EQ(flushed("\r100%\n", "\r100%\n"), (std::array<std::string, 2>{"100%\n", "100%\n"}));
  EXPECT_EQ(flushed("\r100%\npart of ", "a line\n"), (std::array<std::string, 2>{"100%\n", "part of a line\n"}));
  EXPECT_EQ(flushed("\rfirst 100%\n\rsecond 0%", "\rsecond 9%"),
            (std::array<std::string, 2>{"first 100%\n", "second 9%\n"}));
  // The outer one of two, after the inner one was erased.
  EXPECT_EQ(flushed("\router 0\n\rinner 1\x1b[A\n\r       \x1b[A\router 2\n", "after\n"),
            (std::array<std::string, 2>{"outer 2\n", "after\n"}));
}

TEST(LineCutter, ABarAboveTheCursorIsNotDoneWithWhereTheProgramGoesUp) {
  for (const std::string bytes :
       {"\router 0\n\rinner 1\x1b[A", "\ra 1\n\rb 1\x1b[A\ra 2\n\rb 2", "\r 50%", "line\nname: "}) {
    LineCutter cutter;
    std::string out;
    cutter.feed(bytes, "", out);
    const std::string before = out;
    const auto live = cutter.live();
    EXPECT_FALSE(cutter.has_open_bar()) << bytes;
    cutter.flush_bar("", out);
    EXPECT_EQ(out, before);
    EXPECT_EQ(cutter.live(), live);
  }
}

TEST(LineCutter, ALineEndsAlsoInsideASequenceThatWasCutOff) {
  LineCutter cutter;
  std::string out;
  cutter.feed("one\x1b[\ntwo\x1b\nthree\x1b", "[0] ", out);
  cutter.feed("\nfour\n", "[0] ", out);
  EXPECT_EQ(out, "[0] one\x1b[\n[0] two\x1b\n[0] three\x1b\n[0] four\n");
}

TEST(LineCutter, OtherLinesAreLeftAlone) {
  EXPECT_EQ(cut("a\r\nb\r\n"), "a\nb\n");
  EXPECT_EQ(cut("\x1b[31mred\x1b[0m\n\n \n"), "\x1b[31mred\x1b[0m\n\n \n");
  EXPECT_EQ(cut("up\x1b[Aand on\nmore\n"), "upand on\nmore\n");
  EXPECT_EQ(cut("odd \x1bZ\x1b"), "odd \x1bZ\x1b\n");
}

// Both ends of a terminal of 20 columns.
std::array<Fd, 2> make_terminal() {
  int master = -1;
  int slave = -1;
  winsize size{.ws_row = 10, .ws_col = 20, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(::openpty(&master, &slave, nullptr, nullptr, &size), 0);
  ::fcntl(master, F_SETFL, O_NONBLOCK);
  return {Fd(master), Fd(slave)};
}

TEST(Sink, ShowsLinesBelowTheOthers) {
  auto [screen, terminal] = make_terminal();
  Sink sink(terminal.get());
  sink.show(Sink::Place::kOut, {"[0] 10%"});
  sink.flush();
  EXPECT_EQ(read_all(screen), "[0] 10%");
  sink.flush();
  EXPECT_EQ(read_all(screen), "");
  sink.write("line\n");
  sink.flush();
  EXPECT_EQ(read_all(screen), "\r\x1b[Kline\r\n[0] 10%");
  sink.show(Sink::Place::kErr, {"a line that is longer than the terminal is wide"});
  sink.flush();
  EXPECT_EQ(read_all(screen), "\r\x1b[K[0] 10%\r\na line that is long");
  sink.hide();
  sink.flush();
  EXPECT_EQ(read_all(screen), "\r\x1b[K\x1b[A\x1b[K");
}

TEST(Sink, ShowsNoMoreLinesThanTheTerminalHasRows) {
  auto [screen, terminal] = make_terminal();
  Sink sink(terminal.get());
  std::vector<std::string> lines;
  for (int i = 0; i < 14; ++i) lines.push_back(std::to_string(i));
  sink.show(Sink::Place::kErr, lines);
  sink.show(Sink::Place::kOut, {"first"});
  sink.flush();
  EXPECT_EQ(read_all(screen), "4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n10\r\n11\r\n12\r\n13");
  sink.hide();
  sink.flush();
  std::string away = "\r\x1b[K";
  for (int i = 1; i < 10; ++i) away += "\x1b[A\x1b[K";
  EXPECT_EQ(read_all(screen), away);
}

void resize(const Fd& terminal, unsigned short columns) {
  winsize size = {.ws_row = 10, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(terminal.get(), TIOCSWINSZ, &size), 0);
}

// A terminal that became narrower wraps each row that is too long for it.
TEST(Sink, TakesRowsAwayThatTheTerminalHasWrapped) {
  auto [screen, terminal] = make_terminal();
  Sink sink(terminal.get());
  sink.show(Sink::Place::kPanel, {"a row of 18 columns", "short"});
  sink.flush();
  EXPECT_EQ(read_all(screen), "a row of 18 columns\r\nshort");
  resize(terminal, 8);
  sink.resized();
  sink.flush();
  EXPECT_EQ(read_all(screen), "\r\x1b[K\x1b[A\x1b[K\x1b[A\x1b[K\x1b[A\x1b[Ka row o\r\nshort");
}

TEST(Sink, ThePanelFollowsACursorThatTypingMoved) {
  auto [screen, terminal] = make_terminal();
  Sink sink(terminal.get());
  sink.show(Sink::Place::kOut, {"[0] (Pdb) "});
  sink.show(Sink::Place::kPanel, {"-- 2 ranks --"});
  sink.flush();
  EXPECT_EQ(read_all(screen), "-- 2 ranks --\r\n[0] (Pdb) ");
  sink.typed(1);
  sink.write("[0] 42\n");
  sink.flush();
  EXPECT_EQ(read_all(screen), "\r\x1b[K\x1b[A\x1b[K\x1b[A\x1b[K[0] 42\r\n-- 2 ranks --\r\n[0] (Pdb) ");
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

// Many streams that are ready at once bring no more than the sink has room for, and each has its turn.
TEST(JobStreams, ASinkThatIsFullEndsTheTurn) {
  constexpr std::size_t kRanks = 64, kEach = std::size_t{64} << 10, kFull = std::size_t{1} << 20;
  const auto [out_reader, out_writer] = make_pipe();
  Output output(out_writer.get(), out_writer.get());
  std::vector<Stream> streams;
  std::vector<Fd> writers;
  for (std::size_t i = 0; i < 2 * kRanks; ++i) {
    auto [reader, writer] = make_pipe();
    put(writer, std::string(kEach - 1, static_cast<char>('a' + i % 26)) + "\n");
    streams.emplace_back(std::move(reader), Fd(), "", "", output.out());
    writers.push_back(std::move(writer));
  }
  JobStreams all(std::move(streams), StdinRelay());
  const auto turn = [&] {
    std::vector<pollfd> polled;
    all.add_to(polled);
    ::poll(polled.data(), polled.size(), 0);
    all.take(polled, JobStreams::Clock::now());
    all.pump();
  };
  turn();
  std::string text;
  while (!output.empty()) {
    output.flush();
    text += read_all(out_reader);
  }
  EXPECT_LE(text.size(), kFull + kEach);
  for (int i = 0; i < 100 && text.size() < 2 * kRanks * kEach; ++i) {
    turn();
    while (!output.empty()) {
      output.flush();
      text += read_all(out_reader);
    }
  }
  EXPECT_EQ(text.size(), 2 * kRanks * kEach);
}

TEST(Stream, OfABarOnlyTheLastStateIsRemembered) {
  auto [out_reader, out_writer] = make_pipe();
  Sink sink(out_writer.get());
  Stream stream(Fd(), Fd(), "", "[7] ", sink);
  stream.feed("start\r\n");
  for (int i = 0; i < 1000; ++i) stream.feed("\r" + std::to_string(i) + " of 1000");
  stream.feed("\nend\n");
  EXPECT_THAT(stream.last_lines(9), testing::ElementsAre("start", "999 of 1000", "end"));
  sink.flush();
  EXPECT_EQ(read_all(out_reader), "[7] start\n[7] 999 of 1000\n[7] end\n");
}

TEST(Stream, ABarOfALiveStreamIsSeenFromTheStart) {
  auto [out_reader, out_writer] = make_pipe();
  Sink sink(out_writer.get());
  Stream stream(Fd(), Fd(), "", "[0] ", sink);
  stream.show_live(Sink::Place::kErr);
  stream.feed("\r  0%");
  stream.feed("\r  1%");
  sink.flush();
  EXPECT_EQ(read_all(out_reader), "[0]   0%\n");  // and later every ten seconds
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

#include "core/trace/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "core/testing/scratch.h"
#include "core/trace/file.h"

namespace xoe::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kBar = R"({"ph":"X","pid":1,"tid":2,"ts":1.5,"dur":2,"name":"x"})";

class TraceReaderTest : public testing::Test {
 protected:
  Result<TraceInfo> read(std::string_view content, const TraceLimits& limits = {}) {
    put_file(path_, content);
    seen_.clear();
    return read_trace(
        path_,
        [this](const TraceEvent& event) -> Status {
          seen_.push_back(event);
          return {};
        },
        limits);
  }
  static std::string ours(std::string_view lines, bool closed = true) {
    std::string text = trace_header_line({"a", "some-boot", 1000, 2000});
    text.append(lines);
    if (closed) text.append(trace_closing_lines());
    return text;
  }

  Scratch scratch_;
  std::string path_ = scratch_.file("trace.json");
  std::vector<TraceEvent> seen_;
};

TEST_F(TraceReaderTest, ReadsTheHeaderAndEvents) {
  const auto info = read(ours(std::string(kBar) + ",\n" + R"({"ph":"Z","pid":1,"ts":3},)" + "\n"));
  ASSERT_TRUE(info) << info.error().message();
  EXPECT_TRUE(info->ours);
  EXPECT_FALSE(info->merged);
  EXPECT_EQ(info->host, "a");
  EXPECT_EQ(info->boot_id, "some-boot");
  EXPECT_EQ(info->base_ns, 1000);
  EXPECT_EQ(info->wall_base_ns, 2000);
  EXPECT_FALSE(info->clock);
  EXPECT_FALSE(info->cut_at);
  ASSERT_EQ(seen_.size(), 2U);
  EXPECT_EQ(seen_[0].phase, 'X');
  EXPECT_EQ(seen_[0].start_ns, 1500);
  EXPECT_EQ(seen_[0].length_ns, 2000);
  EXPECT_EQ(seen_[0].pid, 1);
  EXPECT_EQ(seen_[0].tid, 2);
  EXPECT_EQ(seen_[1].phase, 'Z');  // unknown phases are for the sink to judge
}

TEST_F(TraceReaderTest, TheFormerHeaderIsUnderstood) {
  const auto info =
      read(R"({"displayTimeUnit":"ms","otherData":{"program":"xoe","clock_base_ns":"123"},"traceEvents":[)"
           "\n" +
           std::string(kBar) + ",\n" + std::string(trace_closing_lines()));
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->ours);
  EXPECT_EQ(info->base_ns, 123);
  EXPECT_EQ(info->boot_id, "");
}

TEST_F(TraceReaderTest, ACutIsToldWithItsByte) {
  const std::string start = ours(std::string(kBar) + ",\n", false);
  const auto half = read(start + R"({"ph":"X","pid":1,)");
  ASSERT_TRUE(half);
  EXPECT_EQ(half->cut_at, start.size());
  EXPECT_EQ(seen_.size(), 1U);
  // Half an event over the old end, of which some is left.
  const auto over = read(start + R"({"ph":"X","pid":0,"ti"end","pid":0,"args":{}})" + "\n]}\n");
  ASSERT_TRUE(over);
  EXPECT_EQ(over->cut_at, start.size());
  const auto zeros = read(start + std::string(3 << 20, '\0'));
  ASSERT_TRUE(zeros);
  EXPECT_EQ(zeros->cut_at, start.size());
  const auto open = read(start);
  ASSERT_TRUE(open);
  EXPECT_EQ(open->cut_at, start.size());
}

TEST_F(TraceReaderTest, DamageInTheMiddleIsAnErrorWithItsByte) {
  const std::string start = ours(std::string(kBar) + ",\n", false);
  const std::string end = std::string(kBar) + ",\n" + std::string(trace_closing_lines());
  for (const std::string& bad : {std::string(R"({"ph":)"), std::string(2 << 20, 'x'), std::string("\xff\xfe"),
                                 std::string(100000, '[') + std::string(100000, ']')}) {
    const auto info = read(start + bad + "\n" + end);
    ASSERT_FALSE(info);
    EXPECT_EQ(info.error().code(), Code::kDataLoss);
    EXPECT_THAT(info.error().message(), HasSubstr("trace.json: byte " + std::to_string(start.size())));
  }
}

TEST_F(TraceReaderTest, EventsThatMakeNoSenseAreCounted) {
  const std::string good = std::string(kBar) + ",\n";
  const std::vector<std::string> bad = {"17",
                                        R"("text")",
                                        "[]",
                                        "{}",
                                        R"({"ph":5,"ts":1})",
                                        R"({"ph":"XX","ts":1})",
                                        R"({"ph":"X","ts":"1","dur":1})",
                                        R"({"ph":"X","ts":1})",
                                        R"({"ph":"X","ts":1,"dur":-1})",
                                        R"({"ph":"X","ts":1e300,"dur":1})",
                                        R"({"ph":"X","ts":1,"dur":1,"pid":-1})",
                                        R"({"ph":"X","ts":1,"dur":1,"pid":4294967296})",
                                        R"({"ph":"X","ts":1,"dur":1,"tid":"main"})",
                                        R"({"ph":"X","ts":1,"dur":1,"pid":18446744073709551615})"};
  std::string lines = good;
  for (const auto& line : bad) lines += line + ",\n";
  const auto info = read(ours(lines + good));
  ASSERT_TRUE(info) << info.error().message();
  EXPECT_EQ(seen_.size(), 2U);
  EXPECT_EQ(info->ignored, bad.size());
  EXPECT_EQ(info->first_ignored_at, trace_header_line({"a", "some-boot", 1000, 2000}).size() + good.size());
}

TEST_F(TraceReaderTest, ReadsOtherProgramsTraces) {
  const std::string event(kBar);
  for (const std::string& content :
       {"[" + event + "," + event + "]", R"({"traceEvents":[)" + event + ",\n" + event + "]}",
        R"({"otherData":{"a":{"ph":"X"}},"list":[)" + event + R"(],"traceEvents":[)" + event + "," + event +
            R"(],"stackFrames":{"1":{"name":"f"}}})"}) {
    const auto info = read(content);
    ASSERT_TRUE(info) << info.error().message();
    EXPECT_FALSE(info->ours);
    EXPECT_EQ(seen_.size(), 2U) << content;
    EXPECT_FALSE(info->cut_at);
  }
  const auto cut = read("[" + event + ",\n" + event + ",\n{\"ph\":");
  ASSERT_TRUE(cut);
  EXPECT_EQ(seen_.size(), 2U);
  EXPECT_TRUE(cut->cut_at);
  const auto broken = read("[" + event + ",\n" + event + " oops " + event + "]");
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message(), HasSubstr("byte "));
}

TEST_F(TraceReaderTest, RefusesWhatIsNoTrace) {
  for (const std::string& content : {std::string(), std::string("hello"), std::string("{}"), std::string("[]"),
                                     std::string("[1,2]"), std::string(R"({"traceEvents":{}})"), std::string("\0\0", 2),
                                     std::string(200000, '['), std::string("\x1f\x8b\x08\0", 4)}) {
    const auto info = read(content);
    ASSERT_FALSE(info) << content.substr(0, 20);
    EXPECT_EQ(info.error().code(), Code::kDataLoss);
    EXPECT_THAT(info.error().message(), HasSubstr("trace.json"));
  }
  const auto none = read_trace(scratch_.file("none"), [](const TraceEvent&) { return Status(); });
  EXPECT_EQ(none.error().code(), Code::kUnavailable);
  EXPECT_FALSE(read_trace(scratch_.path(), [](const TraceEvent&) { return Status(); }));
  const std::string pipe = scratch_.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(read_trace(pipe, [](const TraceEvent&) { return Status(); }));
}

TEST_F(TraceReaderTest, StaysWithinItsLimits) {
  const std::string event(kBar);
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += event + ",\n";
  EXPECT_EQ(read(ours(lines), {.events = 10}).error().code(), Code::kResourceExhausted);
  EXPECT_EQ(read("[" + event + "," + event + "]", {.events = 1}).error().code(), Code::kResourceExhausted);
  EXPECT_EQ(read("[" + event + "," + event + "]", {.foreign_bytes = 50}).error().code(), Code::kResourceExhausted);
  // Brackets deeper than allowed are left out of what another program wrote.
  const std::string deep =
      R"({"ph":"X","ts":1,"dur":1,"args":)" + std::string(5000, '[') + std::string(5000, ']') + "}";
  ASSERT_TRUE(read("[" + event + "," + deep + "]"));
  EXPECT_EQ(seen_.size(), 2U);
}

TEST_F(TraceReaderTest, TheSinksErrorEndsTheReading) {
  put_file(path_, ours(std::string(kBar) + ",\n" + std::string(kBar) + ",\n"));
  int calls = 0;
  const auto info = read_trace(path_, [&calls](const TraceEvent&) -> Status {
    ++calls;
    return failure(Code::kInternal, "enough");
  });
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().message(), "enough");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace xoe::trace

// Arguments, spans, marks, lanes by name, bounded buffers, and what stands in the header.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "core/testing/scratch.h"
#include "core/tests/trace/check.h"
#include "core/trace/names.h"
#include "core/trace/timeline.h"

namespace xoe::trace {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class TimelineEventsTest : public testing::Test {
 protected:
  std::unique_ptr<Timeline> open(std::size_t buffer_events = 1 << 15) const {
    TimelineOptions options;
    options.rank = 3;
    options.local_rank = 1;
    options.host = "node \"b\"";
    options.create = true;
    options.buffer_events = buffer_events;
    return Timeline::open(path_, options).value();
  }
  json trace() const { return json::parse(read_file(path_), nullptr, false); }
  std::vector<json> events(std::string_view phase) const {
    std::vector<json> found;
    const json all = trace();
    for (const auto& event : all["traceEvents"]) {
      if (event["ph"] == phase) found.push_back(event);
    }
    return found;
  }
  json metadata(std::string_view name) const {
    json last;
    for (const auto& event : events("M")) {
      if (event["name"] == name) last = event;
    }
    return last;
  }

  Scratch scratch_;
  std::string path_ = scratch_.file("timeline.json");
};

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size()) ++count;
  return count;
}

TEST_F(TimelineEventsTest, BarsCarryArguments) {
  const auto timeline = open();
  const auto now = TimelineClock::now();
  const TimelineArg batch = {timeline->intern("batch"), 7};
  const TimelineArg tensors = {timeline->intern("tensors"), -2};
  const TimelineArg bytes = {timeline->intern("bytes"), std::int64_t{1} << 40};
  const int lane = timeline->lane("engine: pack");
  const auto name = timeline->intern("pack");
  timeline->record(lane, name, now, now + 1us, {batch, tensors, bytes, timeline->intern("a, \"b\"")});
  timeline->record(lane, name, now + 1us, now + 2us, {.note = timeline->intern("only text")});
  timeline->record(lane, name, now + 2us, now + 3us, {.second = bytes});
  timeline->record(lane, name, now + 3us, now + 4us);
  ASSERT_TRUE(timeline->flush());
  const auto bars = events("X");
  ASSERT_EQ(bars.size(), 4U);
  EXPECT_EQ(bars[0]["args"], json::parse(R"({"batch":7,"tensors":-2,"bytes":1099511627776,"note":"a, \"b\""})"));
  EXPECT_EQ(bars[1]["args"], json::parse(R"({"note":"only text"})"));
  EXPECT_EQ(bars[2]["args"], json::parse(R"({"bytes":1099511627776})"));
  EXPECT_FALSE(bars[3].contains("args"));
  test::expect_viewable(trace());
}

TEST_F(TimelineEventsTest, SpansOverlapAndAlwaysEnd) {
  const auto timeline = open();
  const auto now = TimelineClock::now();
  const auto category = timeline->intern(trace::kNegotiate);
  for (std::uint64_t i = 0; i < 5; ++i) {
    timeline->record_span(category, timeline->intern("conv1.weight"), i, now + i * 1us, now + 10us + i * 1us,
                          {.note = timeline->intern("waited for rank 1")});
  }
  ASSERT_TRUE(timeline->flush());
  const auto starts = events("b");
  const auto stops = events("e");
  ASSERT_EQ(starts.size(), 5U);
  ASSERT_EQ(stops.size(), 5U);
  std::set<std::string> ids;
  for (std::size_t i = 0; i < 5; ++i) {
    for (const char* key : {"cat", "id", "name", "pid", "tid"}) EXPECT_EQ(starts[i][key], stops[i][key]);
    EXPECT_NEAR(stops[i]["ts"].get<double>() - starts[i]["ts"].get<double>(), 10, 0.002);
    EXPECT_EQ(starts[i]["args"]["note"], "waited for rank 1");
    ids.insert(starts[i]["id"]);
  }
  EXPECT_EQ(ids.size(), 5U);
  EXPECT_EQ(metadata("thread_name")["args"]["name"], "tensors");
  test::expect_viewable(trace());

  // Wherever the file is cut, the next writer leaves no span without its end.
  const std::string whole = read_file(path_);
  for (std::size_t cut = 1; cut < 600; cut += 7) {
    put_file(path_, whole.substr(0, whole.size() - cut));
    timeline->mark(1, category, now);
    ASSERT_TRUE(timeline->flush());
    EXPECT_EQ(events("b").size(), events("e").size()) << cut;
  }
}

TEST_F(TimelineEventsTest, MarksAreMoments) {
  const auto timeline = open();
  timeline->mark(timeline->lane("compute"), timeline->intern("epoch 2"), TimelineClock::now());
  ASSERT_TRUE(timeline->flush());
  ASSERT_EQ(events("i").size(), 1U);
  EXPECT_EQ(events("i")[0]["name"], "epoch 2");
  EXPECT_EQ(events("i")[0]["s"], "t");
}

TEST_F(TimelineEventsTest, LanesAreMadeOnDemandOnce) {
  const auto timeline = open();
  ASSERT_TRUE(timeline->name_lane(5, "own"));
  std::vector<std::jthread> threads;
  std::array<int, 4> seen = {};
  for (int& lane : seen) {
    threads.emplace_back([&lane, &timeline] { lane = timeline->lane("engine: reduce"); });
  }
  threads.clear();
  EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 1U);
  EXPECT_GT(seen[0], 5);
  EXPECT_EQ(timeline->lane("own"), 5);
  EXPECT_NE(timeline->lane("another"), seen[0]);
  ASSERT_TRUE(timeline->flush());
  int named = 0;
  for (const auto& event : events("M")) {
    if (event["name"] == "thread_name" && event["args"]["name"] == "engine: reduce") ++named;
    if (event["name"] == "thread_sort_index" && event["tid"] == seen[0]) {
      EXPECT_EQ(event["args"]["sort_index"], 4);
    }
  }
  EXPECT_EQ(named, 1);
  std::set<int> many;
  for (int i = 0; i < 5000; ++i) many.insert(timeline->lane("lane " + std::to_string(i)));
  EXPECT_LE(many.size(), 1001U);
}

TEST_F(TimelineEventsTest, NamesAreBoundedAndAlwaysText) {
  const auto timeline = open();
  const auto now = TimelineClock::now();
  timeline->record(1, timeline->intern(std::string(5000, 'x') + "\xc3\xa4"), now, now);
  timeline->record(1, timeline->intern("caf\xc3\xa9 \xff\xc3 \xed\xa0\x80 \xf0\x9f\x9a\x80"), now, now);
  ASSERT_TRUE(timeline->flush());
  EXPECT_EQ(events("X")[0]["name"].get<std::string>().size(), 1024U);
  EXPECT_EQ(events("X")[1]["name"], "caf\xc3\xa9 ?? ??? \xf0\x9f\x9a\x80");
  std::uint32_t last = 0;
  for (int i = 0; i < 70000; ++i) last = timeline->intern(std::to_string(i));
  EXPECT_LT(last, 1U << 16);
  EXPECT_EQ(timeline->intern("yet another"), last);
  timeline->record(1, last, now, now);
  ASSERT_TRUE(timeline->flush());
  EXPECT_EQ(events("X").back()["name"], "(more names)");
}

TEST_F(TimelineEventsTest, WhoeverFillsABufferWritesIt) {
  const auto timeline = open(64);
  const auto name = timeline->intern("x");
  const auto now = TimelineClock::now();
  std::vector<std::jthread> threads;
  for (int lane = 1; lane <= 4; ++lane) {
    threads.emplace_back([&, lane] {
      for (int i = 0; i < 1000; ++i) timeline->record(lane, name, now + i * 2us, now + i * 2us + 1us);
    });
  }
  threads.clear();
  EXPECT_LE(timeline->pending(), 4U * 64U);
  EXPECT_GT(events("X").size(), 3000U);
  ASSERT_TRUE(timeline->flush());
  EXPECT_EQ(events("X").size(), 4000U);
  test::expect_viewable(trace());
}

TEST_F(TimelineEventsTest, WhatFindsNoRoomIsCounted) {
  const auto timeline = open(64);
  const auto name = timeline->intern("x");
  const auto now = TimelineClock::now();
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {.rlim_cur = 2000, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  for (int i = 0; i < 1000; ++i) timeline->record(1, name, now, now);
  const bool flushed = timeline->flush().has_value();
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(flushed);
  timeline->record(1, name, now, now);
  ASSERT_TRUE(timeline->flush());
  ASSERT_EQ(events("i").size(), 1U);
  EXPECT_EQ(events("i")[0]["name"], trace::kDroppedEvent);
  const auto dropped = events("i")[0]["args"]["count"].get<std::size_t>();
  EXPECT_EQ(dropped + events("X").size(), 1001U);
  EXPECT_GE(dropped, 900U);
  timeline->record(1, name, now, now);
  ASSERT_TRUE(timeline->flush());
  EXPECT_EQ(events("i").size(), 1U);  // told once
}

TEST_F(TimelineEventsTest, ThreadsThatComeAndGoShareBuffers) {
  const auto timeline = open();
  const auto name = timeline->intern("x");
  const auto now = TimelineClock::now();
  rusage before = {};
  rusage after = {};
  ::getrusage(RUSAGE_SELF, &before);
  for (int i = 0; i < 400; ++i) {
    std::jthread([&] {
      for (int j = 0; j < 2000; ++j) timeline->record(1, name, now, now);
    });
  }
  ASSERT_TRUE(timeline->flush());
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(count_of(read_file(path_), R"("ph":"X")"), 800000U);
  if (XOE_SANITIZED == 0) {
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 30000);  // KiB; a ring for each would be 51 MB
  }
}

TEST_F(TimelineEventsTest, OneThreadMayUseSeveralTimelines) {
  const auto now = TimelineClock::now();
  for (int round = 0; round < 3; ++round) {
    auto a = open();
    auto b = Timeline::open(scratch_.file("b.json"), {.rank = 0, .create = true}).value();
    for (int i = 0; i < 100; ++i) {
      a->record(1, a->intern("in a"), now, now);
      b->record(1, b->intern("in b"), now, now);
    }
    EXPECT_EQ(a->pending(), 100U);
    EXPECT_EQ(b->pending(), 100U);
    ASSERT_TRUE(a->flush());
    EXPECT_EQ(events("X").size(), 100U);
    for (const auto& event : events("X")) EXPECT_EQ(event["name"], "in a");
  }
}

TEST_F(TimelineEventsTest, AForkedChildWritesNothing) {
  const auto timeline = open(64);
  const auto now = TimelineClock::now();
  const auto name = timeline->intern("x");
  timeline->record(1, name, now, now);
  const pid_t child = ::fork();
  if (child == 0) {
    for (int i = 0; i < 1000; ++i) timeline->record(1, name, now, now);
    ::_exit(timeline->flush() ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(events("X").empty());
  ASSERT_TRUE(timeline->flush());
  EXPECT_EQ(events("X").size(), 1U);
}

TEST_F(TimelineEventsTest, TheFileTellsHostBootRankAndClock) {
  const auto timeline = open();
  const auto data = trace()["otherData"];
  EXPECT_EQ(data["program"], "xoe");
  EXPECT_EQ(data["host"], "node \"b\"");
  EXPECT_EQ(data["boot_id"].get<std::string>().size(), 36U);
  EXPECT_NEAR(std::stod(data["clock_base_ns"].get<std::string>()),
              static_cast<double>(TimelineClock::now().time_since_epoch().count()), 60e9);
  EXPECT_EQ(metadata("process_name")["args"]["name"],
            "rank 3 (host node \"b\", pid " + std::to_string(::getpid()) + ")");
  const auto labels = metadata("process_labels")["args"];
  EXPECT_EQ(labels["labels"], "host node \"b\", local rank 1");
  EXPECT_EQ(labels["local_rank"], 1);
  EXPECT_EQ(metadata("process_labels")["pid"], 3);
  ASSERT_TRUE(timeline->set_clock(5us, 1us));
  ASSERT_TRUE(timeline->set_clock(-1234567us, 890ns));
  EXPECT_EQ(metadata(trace::kClockEvent)["args"],
            json::parse(R"({"clock_offset_ns":-1234567000,"clock_uncertainty_ns":890})"));
}

TEST_F(TimelineEventsTest, AnotherHostsFileIsRefused) {
  { const auto timeline = open(); }
  std::string text = read_file(path_);
  text.replace(text.find("boot_id\":\"") + 10, 8, "00000000");
  put_file(path_, text);
  const auto joined = Timeline::open(path_, {.rank = 1, .create = false});
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code(), Code::kInvalidArgument);
  EXPECT_NE(joined.error().message().find("{host}"), std::string::npos);
  EXPECT_EQ(timeline_path("/tmp/{host}/run-{host}.json", "a/b"), "/tmp/a_b/run-a_b.json");
}

}  // namespace
}  // namespace xoe::trace

#include "core/trace/timeline.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "core/trace/file.h"

namespace xoe::trace {
namespace {

using namespace std::chrono_literals;

class TimelineTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "xoe-timeline-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ + "/timeline.json";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string text() const {
    std::ifstream file(path_);
    std::stringstream content;
    content << file.rdbuf();
    return content.str();
  }
  // Fails the test when the file is not one JSON object.
  nlohmann::json parse() const {
    auto json = nlohmann::json::parse(text(), nullptr, false);
    EXPECT_TRUE(json.is_object()) << text();
    return json;
  }
  std::vector<nlohmann::json> bars() const {
    std::vector<nlohmann::json> found;
    const auto json = parse();
    for (const auto& event : json["traceEvents"]) {
      if (event["ph"] == "X") found.push_back(event);
    }
    return found;
  }

  std::string folder_;
  std::string path_;
};

TEST_F(TimelineTest, IsValidFromTheStartAndAfterEachFlush) {
  auto timeline = Timeline::open(path_, {.rank = 0, .create = true}).value();
  EXPECT_TRUE(bars().empty());
  ASSERT_TRUE(timeline->name_lane(1, "compute"));
  const auto name = timeline->intern("forward");
  const auto now = TimelineClock::now();
  for (int round = 1; round <= 3; ++round) {
    timeline->record(1, name, now, now + 1500us);
    EXPECT_EQ(timeline->pending(), 1U);
    ASSERT_TRUE(timeline->flush());
    EXPECT_EQ(timeline->pending(), 0U);
    ASSERT_EQ(bars().size(), static_cast<std::size_t>(round));
  }
  const auto bar = bars().front();
  EXPECT_EQ(bar["name"], "forward");
  EXPECT_EQ(bar["pid"], 0);
  EXPECT_EQ(bar["tid"], 1);
  EXPECT_NEAR(bar["dur"].get<double>(), 1500, 0.01);
  EXPECT_GE(bar["ts"].get<double>(), 0);
}

TEST_F(TimelineTest, EscapesNames) {
  auto timeline = Timeline::open(path_, {.rank = 0, .create = true}).value();
  const auto now = TimelineClock::now();
  timeline->record(0, timeline->intern("a \"b\" \\ \n c"), now, now);
  ASSERT_TRUE(timeline->flush());
  EXPECT_EQ(bars().at(0)["name"], "a \"b\" \\ \n c");
  EXPECT_EQ(timeline->intern("same"), timeline->intern("same"));
}

TEST_F(TimelineTest, KeepsWhatManyThreadsRecordWhileItIsFlushed) {
  constexpr int kThreads = 4;
  constexpr int kEvents = 2000;
  auto timeline = Timeline::open(path_, {.rank = 0, .create = true}).value();
  const auto name = timeline->intern("work");
  std::vector<std::thread> threads;
  for (int lane = 0; lane < kThreads; ++lane) {
    threads.emplace_back([&, lane] {
      for (int i = 0; i < kEvents; ++i) timeline->record(lane, name, TimelineClock::now(), TimelineClock::now());
    });
  }
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(timeline->flush());
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(timeline->flush());
  EXPECT_EQ(bars().size(), static_cast<std::size_t>(kThreads * kEvents));
}

TEST_F(TimelineTest, ProcessesWriteIntoOneFile) {
  constexpr int kRanks = 4;
  constexpr int kFlushes = 25;
  auto first = Timeline::open(path_, {.rank = 0, .create = true}).value();
  std::vector<pid_t> children;
  for (int rank = 1; rank < kRanks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto timeline = Timeline::open(path_, {.rank = rank, .create = false});
      bool good = timeline.has_value();
      for (int i = 0; good && i < kFlushes; ++i) {
        (*timeline)->record(1, (*timeline)->intern("x"), TimelineClock::now(), TimelineClock::now());
        good = (*timeline)->flush().has_value();
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const auto found = bars();
  EXPECT_EQ(found.size(), static_cast<std::size_t>((kRanks - 1) * kFlushes));
  std::set<int> pids;
  for (const auto& bar : found) pids.insert(bar["pid"].get<int>());
  EXPECT_EQ(pids, (std::set<int>{1, 2, 3}));
}

// What a rank leaves that is killed while it writes.
TEST_F(TimelineTest, TheNextWriterRepairsAHalfWrittenEnd) {
  auto timeline = Timeline::open(path_, {.rank = 0, .create = true}).value();
  const auto now = TimelineClock::now();
  timeline->record(1, timeline->intern("before"), now, now);
  ASSERT_TRUE(timeline->flush());
  const std::string whole = text();
  for (std::size_t cut = 1; cut < 200 && cut < whole.size(); ++cut) {
    std::ofstream(path_, std::ios::trunc) << whole.substr(0, whole.size() - cut);
    timeline->record(1, timeline->intern("after"), now, now);
    ASSERT_TRUE(timeline->flush());
    const auto found = bars();
    ASSERT_FALSE(found.empty()) << cut;
    EXPECT_EQ(found.back()["name"], "after");
  }
}

TEST_F(TimelineTest, AFullDiskLeavesAValidFile) {
  auto timeline = Timeline::open(path_, {.rank = 0, .create = true}).value();
  const auto now = TimelineClock::now();
  timeline->record(1, timeline->intern("first"), now, now);
  ASSERT_TRUE(timeline->flush());
  for (int i = 0; i < 20000; ++i) timeline->record(1, timeline->intern("more"), now, now);

  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {.rlim_cur = 100000, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Status full = timeline->flush();
  ::setrlimit(RLIMIT_FSIZE, &before);

  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), Code::kResourceExhausted);
  EXPECT_NE(full.error().message().find(path_), std::string::npos);
  EXPECT_EQ(bars().size(), 1U);
  timeline->record(1, timeline->intern("later"), now, now);
  EXPECT_TRUE(timeline->flush());
  EXPECT_EQ(bars().size(), 2U);
}

TEST_F(TimelineTest, MakesItsFolder) {
  const std::string path = folder_ + "/new/folder/file.json";
  ASSERT_TRUE(Timeline::open(path, {.rank = 0, .create = true}));
  EXPECT_TRUE(std::ifstream(path));
}

TEST_F(TimelineTest, RefusesWhatItCannotUse) {
  EXPECT_FALSE(Timeline::open(path_, {.rank = 1, .create = false}));
  std::ofstream(path_) << "{}";
  const auto below_a_file = Timeline::open(path_ + "/file.json", {.rank = 0, .create = true});
  ASSERT_FALSE(below_a_file);
  EXPECT_EQ(below_a_file.error().code(), Code::kUnavailable);
  const auto foreign = Timeline::open(path_, {.rank = 1, .create = false});
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace xoe::trace

#include "core/trace/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "core/testing/scratch.h"
#include "core/tests/trace/check.h"
#include "core/tests/trace/sample_run.h"
#include "core/trace/names.h"

namespace xoe::trace {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TraceMergeTest : public testing::Test {
 protected:
  Result<MergeReport> merge(std::vector<std::string> inputs, bool renumber = false) const {
    MergeOptions options;
    options.inputs = std::move(inputs);
    options.output = out_;
    options.replace = true;
    options.renumber = renumber;
    return merge_traces(options);
  }
  json merged() const { return json::parse(read_file(out_), nullptr, false); }
  std::vector<json> merged_events() const { return merged()["traceEvents"].get<std::vector<json>>(); }
  std::vector<std::string> sample(const test::SampleOptions& options = {}) const {
    auto paths = test::write_sample(scratch_.file("run"), options);
    EXPECT_EQ(paths.size(), 2U);
    return paths;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  Scratch scratch_;
  std::string out_ = scratch_.file("merged.json");
};

// When each tensor of each step was agreed upon, by each rank: the ends of its negotiation.
std::map<std::string, std::vector<double>> agreements(const json& trace) {
  std::map<std::string, std::vector<double>> found;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "e" && event["cat"] == trace::kNegotiate) found[event["name"]].push_back(event["ts"]);
  }
  return found;
}

// The ranks of a job whose hosts come and go are in several files, as when one is left of two hosts.
TEST_F(TraceMergeTest, ARankOfOneJobGoesOnInAnotherFile) {
  const auto write = [this](const std::string& name, const std::string& job, std::vector<std::string> lanes) {
    const std::string path = scratch_.file(name);
    const auto timeline = Timeline::open(path, {.rank = 1, .host = "a", .job = job, .create = true}).value();
    for (const std::string& lane : lanes) {
      const auto now = TimelineClock::now();
      timeline->record(timeline->lane(lane), timeline->intern("step in " + lane), now, TimelineClock::now());
    }
    EXPECT_TRUE(timeline->flush());
    return path;
  };
  const std::string first = write("one.json", "7", {"forward", "backward"});
  const std::string second = write("two.json", "7", {"backward", "optimizer", "forward"});
  const auto report = merge({first, second});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->warnings, IsEmpty());
  const json trace = merged();
  test::expect_viewable(trace);
  std::map<int, std::string> lanes;
  for (const auto& event : trace["traceEvents"])
    if (event["name"] == "thread_name") lanes[event["tid"].get<int>()] = event["args"]["name"];
  std::multiset<std::string> bars;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_EQ(event["pid"], 1);
    EXPECT_EQ(event["name"], "step in " + lanes[event["tid"].get<int>()]);
    bars.insert(event["name"]);
  }
  EXPECT_EQ(bars.size(), 5U);
  EXPECT_EQ(bars.count("step in forward"), 2U);
  // The result is of that job, too; another job's is not.
  const std::string kept = scratch_.file("kept.json");
  std::filesystem::copy_file(out_, kept);
  EXPECT_TRUE(merge({kept, write("three.json", "7", {"forward"})}));
  const auto refused = merge({kept, write("four.json", "8", {"forward"})});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("rank 1 is in"));
}

TEST_F(TraceMergeTest, FourRanksOfTwoHostsOnOneClock) {
  const auto report = merge(sample({.steps = 6}));
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->warnings, IsEmpty());
  ASSERT_EQ(report->files.size(), 2U);
  EXPECT_THAT(report->files[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(report->files[1].ranks, ElementsAre(2, 3));
  EXPECT_EQ(report->files[1].clock.how, "told");
  EXPECT_EQ(report->files[1].clock.uncertainty_ns, 20'000);

  const json trace = merged();
  test::expect_viewable(trace);
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  EXPECT_EQ(trace["otherData"]["hosts"].size(), 2U);
  double last = 0;
  std::set<int> ranks;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    EXPECT_GE(event["ts"].get<double>(), last);
    last = event["ts"];
    ranks.insert(event["pid"].get<int>());
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3}));
  EXPECT_NEAR(static_cast<double>(report->length_ns), last * 1e3, 5e6);

  // Host b's clock was 37 s ahead. What was simultaneous is so again.
  const auto agreed = agreements(trace);
  EXPECT_EQ(agreed.size(), 6U);
  for (const auto& [tensor, times] : agreed) {
    ASSERT_EQ(times.size(), 4U * 6U) << tensor;
    for (std::size_t i = 0; i < times.size(); i += 4) EXPECT_LT(times[i + 3] - times[i], 100) << tensor;
  }
  const double first = agreed.at("fc.weight")[0];
  const double second = agreed.at("fc.weight")[4];
  const std::chrono::duration<double, std::micro> expected = test::agreed_at(1, 0) - test::agreed_at(0, 0);
  EXPECT_NEAR(second - first, expected.count(), 100);
}

TEST_F(TraceMergeTest, FilesThatTellNoClockArePlacedByTheWallClock) {
  // Without skew of the monotonic clock, so that the wall clocks say the same.
  const auto report = merge(sample({.skew = 0ns, .tell_clock = false}));
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->warnings, Contains(HasSubstr("wall clock")));
  EXPECT_EQ(report->files[1].clock.how, "wall clock");
  for (const auto& [tensor, times] : agreements(merged())) {
    for (std::size_t i = 0; i < times.size(); i += 4) EXPECT_LT(times[i + 3] - times[i], 100'000) << tensor;
  }
}

TEST_F(TraceMergeTest, TheLastClockCounts) {
  const std::string path = scratch_.file("a.json");
  {
    auto timeline = Timeline::open(path, {.rank = 0, .create = true}).value();
    const auto now = TimelineClock::now();
    timeline->record(1, timeline->intern("x"), now, now + 1ms);
    ASSERT_TRUE(timeline->set_clock(5s, 1ms));
    ASSERT_TRUE(timeline->set_clock(-2s, 3us));
  }
  const auto report = merge({path});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->files[0].clock.shift_ns - report->files[0].info.base_ns, -2'000'000'000);
  EXPECT_EQ(report->files[0].clock.uncertainty_ns, 3000);
  for (const json& event : merged_events()) EXPECT_NE(event["name"], trace::kClockEvent);
}

TEST_F(TraceMergeTest, TwoFilesOfOneHostShareItsClock) {
  const std::string a = scratch_.file("a.json");
  const std::string b = scratch_.file("b.json");
  const auto now = TimelineClock::now();
  {
    auto first = Timeline::open(a, {.rank = 0, .create = true}).value();
    auto second = Timeline::open(b, {.rank = 1, .create = true}).value();
    first->record(1, first->intern("x"), now, now + 1ms);
    second->record(1, second->intern("x"), now, now + 1ms);
    ASSERT_TRUE(second->set_clock(7s, 1us));
  }
  const auto report = merge({a, b});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->files[0].clock.how, "same host");
  for (const json& event : merged_events()) {
    if (event["ph"] == "X") {
      EXPECT_EQ(event["ts"], 0.0);
    }
  }
}

TEST_F(TraceMergeTest, AMergedTraceMergesAgain) {
  const auto paths = sample();
  ASSERT_TRUE(merge(paths));
  const std::string once = scratch_.file("once.json");
  std::filesystem::rename(out_, once);
  const auto report = merge({once});
  ASSERT_TRUE(report) << report.error().message();
  const json before = json::parse(read_file(once));
  EXPECT_EQ(merged()["traceEvents"], before["traceEvents"]);
  EXPECT_EQ(merged()["otherData"]["clock_base_ns"], before["otherData"]["clock_base_ns"]);
}

TEST_F(TraceMergeTest, RanksThatCollideAreAnErrorOrRenumbered) {
  const auto paths = sample();
  const std::string copy = scratch_.file("copy.json");
  std::filesystem::copy_file(paths[0], copy);
  const auto refused = merge({paths[0], copy});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("rank "));
  EXPECT_THAT(refused.error().message(), HasSubstr(copy));
  EXPECT_FALSE(std::filesystem::exists(out_));

  const auto report = merge({paths[0], copy}, true);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->warnings.size(), 2U);
  EXPECT_THAT(report->files[1].ranks, ElementsAre(1'000'000, 1'000'001));
  test::expect_viewable(merged());  // also: no span of one is taken for the other's
}

TEST_F(TraceMergeTest, ForeignTracesStartWithTheFirstEvent) {
  const auto paths = sample();
  const std::string foreign = scratch_.file("foreign.json");
  put_file(foreign,
           R"([{"ph":"X","pid":77,"tid":1,"ts":1.7e15,"dur":5,"name":"kernel","args":{"deep":{"er":[1]}}},
    {"ph":"X","pid":77,"tid":1,"ts":1700000000000010,"dur":5,"name":"next"},{"ph":"X","pid":"Spans","ts":1}])");
  const auto report = merge({paths[0], foreign});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->warnings, Contains(HasSubstr("not written by Xoe")));
  EXPECT_THAT(report->warnings, Contains(HasSubstr("1 event left out that makes no sense")));
  std::map<std::string, double> at;
  for (const json& event : merged_events()) {
    if (event["pid"] == 77) at[event["name"]] = event["ts"];
  }
  EXPECT_EQ(at["kernel"], 0.0);
  EXPECT_EQ(at["next"], 10.0);
}

TEST_F(TraceMergeTest, ACutFileGivesWhatIsWhole) {
  const auto paths = sample();
  const std::string whole = read_file(paths[1]);
  for (const std::size_t keep : {whole.size() - 1, whole.size() - 30, whole.size() - 100, whole.size() / 2}) {
    put_file(paths[1], std::string_view(whole).substr(0, keep));
    const auto report = merge(paths);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_THAT(report->warnings, Contains(HasSubstr("ends at byte")));
    test::expect_viewable(merged());
  }
}

TEST_F(TraceMergeTest, AnUnnamedOutputIsInNoFolder) {
  const auto paths = sample();
  ASSERT_TRUE(merge(paths));
  const auto before = files();
  MergeOptions options;
  options.inputs = paths;
  const auto unnamed = merge_unnamed(options, scratch_.path());
  ASSERT_TRUE(unnamed) << unnamed.error().message();
  EXPECT_EQ(files(), before);
  struct stat facts = {};
  ASSERT_EQ(::fstat(unnamed->file.get(), &facts), 0);
  EXPECT_EQ(facts.st_nlink, 0U);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  // It can be read more than once.
  EXPECT_EQ(read_file(unnamed->path()), read_file(out_));
  EXPECT_EQ(read_file(unnamed->path()), read_file(out_));
  options.inputs = {paths[0], paths[0]};
  EXPECT_EQ(merge_unnamed(options, scratch_.path()).error().code(), Code::kInvalidArgument);
  options.inputs = paths;
  EXPECT_EQ(merge_unnamed(options, scratch_.file("none")).error().code(), Code::kUnavailable);
}

TEST_F(TraceMergeTest, TheOutputIsWholeOrNotThere) {
  const auto paths = sample();
  MergeOptions options;
  options.inputs = paths;
  options.output = out_;
  put_file(out_, "precious");
  const auto kept = merge_traces(options);
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(kept.error().message(), HasSubstr("--overwrite"));

  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {.rlim_cur = 20000, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto full = merge(paths);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(read_file(out_), "precious");
  EXPECT_EQ(files().size(), 3U);  // no half file is left

  EXPECT_EQ(merge({}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(merge({paths[0], paths[0]}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(merge({paths[0], out_}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(merge({paths[0], scratch_.file("none")}).error().code(), Code::kUnavailable);
}

TEST_F(TraceMergeTest, MoreEventsThanAllowedIsAnError) {
  MergeOptions options;
  options.inputs = sample();
  options.output = out_;
  options.limits.events = 500;  // each file has fewer
  const auto report = merge_traces(options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace xoe::trace

#include "measure/pages/timeline_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/testing/scratch.h"
#include "measure/pages/event_colors.h"

namespace xoe::pages {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two stages of the engine, a lane of the program's, and two spans that overlap, within 10 ms; later another span.
constexpr const char* kTrace = R"({"traceEvents":[
{"ph":"M","name":"process_labels","pid":0,"tid":0,"args":{"host":"b"}},
{"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"engine: pack"}},
{"ph":"M","name":"thread_name","pid":0,"tid":2,"args":{"name":"engine: reduce"}},
{"ph":"M","name":"thread_name","pid":0,"tid":3,"args":{"name":"compute"}},
{"ph":"X","pid":0,"tid":1,"ts":1000,"dur":1000,"name":"pack","args":{}},
{"ph":"X","pid":0,"tid":2,"ts":2000,"dur":6000,"name":"reduce <w>","args":{}},
{"ph":"X","pid":0,"tid":3,"ts":1000,"dur":9000,"name":"forward","args":{}},
{"ph":"b","pid":0,"tid":0,"ts":1000,"cat":"queue","id":1,"name":"w1"},
{"ph":"b","pid":0,"tid":0,"ts":2000,"cat":"queue","id":2,"name":"w2"},
{"ph":"e","pid":0,"tid":0,"ts":3000,"cat":"queue","id":1,"name":"w1"},
{"ph":"e","pid":0,"tid":0,"ts":4000,"cat":"queue","id":2,"name":"w2"},
{"ph":"b","pid":0,"tid":0,"ts":50000,"cat":"queue","id":3,"name":"late"},
{"ph":"e","pid":0,"tid":0,"ts":51000,"cat":"queue","id":3,"name":"late"}]})";

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class TimelinePictureTest : public ::testing::Test {
 protected:
  TimelinePictureTest() {
    put_file(scratch_.file("t.json"), kTrace);
    timeline_ = *read_timeline(scratch_.file("t.json"));
  }
  Scratch scratch_;
  Timeline timeline_;
};

TEST_F(TimelinePictureTest, HasARowForEachLaneAndForSpansThatOverlap) {
  const auto picture = timeline_svg(timeline_, {.from_s = 0, .length_ms = 10}, "ten ms");
  ASSERT_TRUE(picture) << picture.error().message();
  for (const char* text : {">ten ms<", ">rank 0 on b<", ">engine<", ">compute<", ">queue<", "<title>pack: 1 ms<",
                           "<title>reduce &lt;w>: 6 ms<", "<title>w2: 2 ms<", ">10 ms<"})
    EXPECT_THAT(*picture, HasSubstr(text));
  EXPECT_THAT(*picture, Not(HasSubstr("late")));
  EXPECT_EQ(count_of(*picture, "#f4f4f4"), 4U);  // the engine, compute, and two rows of spans
}

TEST_F(TimelinePictureTest, ShowsAStretchAlone) {
  const auto picture = timeline_svg(timeline_, {.from_s = 0.045, .length_ms = 1000}, "the end");
  ASSERT_TRUE(picture) << picture.error().message();
  EXPECT_THAT(*picture, HasSubstr("<title>late: 1 ms<"));
  EXPECT_THAT(*picture, HasSubstr(">5 ms<"));  // the timeline ends there
  EXPECT_THAT(*picture, Not(HasSubstr("<title>pack")));
}

TEST_F(TimelinePictureTest, BehindTheEndThereIsNothing) {
  const auto picture = timeline_svg(timeline_, {.from_s = 1}, "");
  ASSERT_FALSE(picture);
  EXPECT_EQ(picture.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(picture.error().message(), HasSubstr("no events 1 s after the first: the timeline has 50 ms"));
}

TEST(EventColors, FollowTheFirstWordOrTheLane) {
  EXPECT_EQ(event_color("forward: conv1"), event_color("forward"));
  EXPECT_NE(event_color("forward"), event_color("backward"));
  EXPECT_LT(event_color("anything else"), kEventColors.size());
  EXPECT_EQ(lane_color("compute", false), std::nullopt);
  EXPECT_EQ(lane_color("input thread", false), event_color("input"));
  EXPECT_EQ(lane_color("negotiate", true), event_color("negotiate"));
}

}  // namespace
}  // namespace xoe::pages

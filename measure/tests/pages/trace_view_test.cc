#include "measure/pages/trace_view.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "core/testing/scratch.h"
#include "measure/pages/result_page.h"

namespace xoe::pages {
namespace {

std::string trace_of(const std::string& events) { return "{\"traceEvents\":[\n" + events + "\n]}\n"; }

std::string bar(int rank, int lane, double us, double length, std::string_view name, std::string_view args = "{}") {
  return fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}","args":{}}})", rank, lane, us, length,
                     name, args);
}

// No two events of a row overlap.
void expect_rows(const ViewLane& lane) {
  std::map<std::uint32_t, std::int64_t> busy;
  for (const ViewEvent& event : lane.events) {
    ASSERT_LT(event.row, lane.rows);
    if (const auto found = busy.find(event.row); found != busy.end()) {
      EXPECT_GE(event.start_ns, found->second);
    }
    busy[event.row] = event.start_ns + event.length_ns;
  }
}

TEST(TraceView, HasALaneForEachThreadAndEachCategoryOfSpans) {
  const Scratch scratch;
  const std::string path = scratch.file("t.json");
  put_file(path,
           trace_of(
               R"({"ph":"M","name":"thread_name","pid":1,"tid":7,"args":{"name":"compute"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":7,"args":{"sort_index":0}},)" +
               bar(1, 3, 100, 5, "allreduce", R"({"bytes":4096,"tensors":2,"batch":9,"note":"a, b","op":"sum"})") +
               "," + bar(1, 7, 90, 50, "forward") + "," + bar(0, 7, 80, 1, "forward") + R"(,
{"ph":"b","pid":1,"tid":0,"ts":91,"cat":"negotiate","id":"0x1","name":"w","args":{"note":"waited for rank 0"}},
{"ph":"e","pid":1,"tid":0,"ts":95,"cat":"negotiate","id":"0x1","name":"w"},
{"ph":"b","pid":1,"tid":0,"ts":96,"cat":"negotiate","id":"0x2","name":"never ends"},
{"ph":"C","pid":1,"tid":0,"ts":96,"name":"counter","args":{"x":1}})"));
  const auto view = view_trace(path);
  ASSERT_TRUE(view) << view.error().message();
  EXPECT_EQ(view->events, 4U);
  EXPECT_EQ(view->left_out, 0U);
  EXPECT_EQ(view->not_drawn, 2U);  // the counter, and the span without an end
  EXPECT_EQ(view->length_ns, 60'000);
  ASSERT_EQ(view->lanes.size(), 4U);
  EXPECT_EQ(view->lanes[0].rank, 0);
  EXPECT_EQ(view->lanes[0].name, "lane 7");
  EXPECT_EQ(view->lanes[1].name, "compute");  // its sort index is lower
  EXPECT_EQ(view->lanes[2].name, "lane 3");
  EXPECT_EQ(view->lanes[3].name, "negotiate");
  EXPECT_TRUE(view->lanes[3].spans);
  const ViewEvent& reduce = view->lanes[2].events.at(0);
  EXPECT_EQ(reduce.start_ns, 20'000);
  EXPECT_EQ(reduce.length_ns, 5'000);
  EXPECT_EQ(reduce.bytes, 4096);
  EXPECT_EQ(reduce.tensors, 2);
  EXPECT_EQ(reduce.batch, 9);
  EXPECT_EQ(view->texts[reduce.note], "a, b; op: sum");
  EXPECT_EQ(view->texts[view->lanes[3].events.at(0).note], "waited for rank 0");
}

TEST(TraceView, OverlappingEventsLieInRows) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    ViewLane lane;
    for (int i = 0; i < 200; ++i)
      lane.events.push_back({.start_ns = static_cast<std::int64_t>(random() % 1000),
                             .length_ns = static_cast<std::int64_t>(random() % 60)});
    std::sort(lane.events.begin(), lane.events.end(),
              [](const ViewEvent& a, const ViewEvent& b) { return a.start_ns < b.start_ns; });
    lane.rows = stack_rows(lane.events);
    expect_rows(lane);
  }
  std::vector<ViewEvent> nested = {
      {.start_ns = 0, .length_ns = 10}, {.start_ns = 2, .length_ns = 3}, {.start_ns = 5, .length_ns = 5}};
  EXPECT_EQ(stack_rows(nested), 2U);
  EXPECT_EQ(nested[0].row, 0U);
  EXPECT_EQ(nested[2].row, 1U);
  std::vector<ViewEvent> none;
  EXPECT_EQ(stack_rows(none), 0U);
}

TEST(TraceView, LeavesOutTheShortestAndSaysSo) {
  const Scratch scratch;
  const std::string path = scratch.file("t.json");
  std::string events;
  for (int i = 1; i <= 1000; ++i) events += fmt::format("{}{}", i == 1 ? "" : ",\n", bar(0, 1, i * 2000, i, "x"));
  put_file(path, trace_of(events));
  const auto timeline = read_timeline(path, {.events = 100});
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->view.events, 100U);
  EXPECT_EQ(timeline->view.left_out, 900U);
  EXPECT_EQ(timeline->view.shortest_ns, 901'000);
  for (const ViewEvent& event : timeline->view.lanes.at(0).events) EXPECT_GE(event.length_ns, 901'000);
  EXPECT_EQ(timeline->summary.events, 1000U);
  ASSERT_EQ(notes_of(*timeline).size(), 1U);
  EXPECT_TRUE(contains(notes_of(*timeline)[0], "900 of 1000 events are not drawn"));
  EXPECT_TRUE(contains(timeline_page(*timeline, "t"), "900 of 1000 events are not drawn"));
}

TEST(TraceView, AnyLimitOfEventsIsKept) {
  const Scratch scratch;
  const std::string path = scratch.file("t.json");
  put_file(path, trace_of(bar(0, 1, 1, 1, "a") + "," + bar(0, 1, 2, 3, "b")));
  for (const std::size_t limit : {std::size_t{1} << 63U, std::numeric_limits<std::size_t>::max(), kMostEvents}) {
    const auto view = view_trace(path, {.events = limit});
    ASSERT_TRUE(view);
    EXPECT_EQ(view->events, 2U);
  }
  const auto view = view_trace(path, {.events = 0});
  ASSERT_TRUE(view);
  EXPECT_EQ(view->events, 1U);
  EXPECT_EQ(view->texts.at(view->lanes.at(0).events.at(0).name), "b");
}

TEST(TraceView, TextsOfEventsThatAreLeftOutAreNotInThePage) {
  const Scratch scratch;
  const std::string path = scratch.file("t.json");
  const std::string padding(500, 'x');
  // These spans are open while most of the others are left out; the second never ends.
  std::string events = R"({"ph":"b","pid":0,"tid":0,"ts":0,"cat":"c","id":1,"name":"early","args":{"note":"first"}},
{"ph":"b","pid":0,"tid":0,"ts":0,"cat":"c","id":2,"name":"endless","args":{}},)";
  for (int i = 0; i < 10'000; ++i)
    events += bar(0, 1, i, (i * 7919) % 10'007, fmt::format("name {}", i),
                  fmt::format(R"({{"note":"note {} {}"}})", i, padding)) +
              ",\n";
  events += R"({"ph":"e","pid":0,"tid":0,"ts":90000,"cat":"c","id":1,"name":"early"})";
  put_file(path, trace_of(events));
  const auto timeline = read_timeline(path, {.events = 100});
  ASSERT_TRUE(timeline);
  const TraceView& view = timeline->view;
  EXPECT_EQ(view.events, 100U);
  EXPECT_EQ(view.texts.size(), 201U);  // a name and a note each, and the empty one
  ASSERT_EQ(view.lanes.size(), 2U);
  for (const ViewEvent& event : view.lanes[0].events)
    EXPECT_EQ(view.texts.at(event.note), "note" + view.texts.at(event.name).substr(4) + " " + padding);
  EXPECT_EQ(view.texts.at(view.lanes[1].events.at(0).name), "early");
  EXPECT_EQ(view.texts.at(view.lanes[1].events.at(0).note), "first");
  EXPECT_LT(json_of(view).size(), std::size_t{100} << 10);
}

TEST(TraceView, AHundredThousandEventsStaySmall) {
  const Scratch scratch;
  const std::string path = scratch.file("t.json");
  std::string events;
  for (int i = 0; i < 100'000; ++i)
    events += fmt::format("{}{}", i == 0 ? "" : ",\n",
                          bar(i % 4, 1 + i / 4 % 5, i * 10.125, 9.5, i % 2 == 0 ? "forward" : "backward"));
  put_file(path, trace_of(events));
  const auto timeline = read_timeline(path);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->view.events, 100'000U);
  EXPECT_TRUE(notes_of(*timeline).empty());
  EXPECT_LT(timeline_page(*timeline, "t").size(), std::size_t{3} << 20);
}

TEST(TraceView, ABrokenOrForeignFileIsAnError) {
  const Scratch scratch;
  put_file(scratch.file("bad.json"), "{\"traceEvents\": oops");
  EXPECT_EQ(view_trace(scratch.file("bad.json")).error().code(), Code::kDataLoss);
  EXPECT_EQ(view_trace(scratch.file("none")).error().code(), Code::kUnavailable);
  put_file(scratch.file("cut.json"), "[" + bar(0, 1, 1, 1, "x") + ",{\"ph\":\"X\",\"pid");
  const auto cut = read_timeline(scratch.file("cut.json"));
  ASSERT_TRUE(cut);
  EXPECT_TRUE(contains(notes_of(*cut).at(0), "no proper end"));
}

}  // namespace
}  // namespace xoe::pages

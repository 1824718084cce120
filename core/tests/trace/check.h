// What viewers demand of a trace.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace xoe::trace::test {

struct Bar {
  double start;
  double stop;
  std::string name;
};

// Bars of one lane lie one within the other, or apart. Numbers are written to a nanosecond.
inline void expect_nested(std::vector<Bar> bars) {
  std::sort(bars.begin(), bars.end(),
            [](const Bar& a, const Bar& b) { return a.start != b.start ? a.start < b.start : a.stop > b.stop; });
  std::vector<Bar> open;
  for (const Bar& bar : bars) {
    while (!open.empty() && open.back().stop <= bar.start + 0.0005) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(bar.stop, open.back().stop + 0.0005) << bar.name << " crosses " << open.back().name;
    }
    open.push_back(bar);
  }
}

// Every event has the fields of its phase with the right types; every span has its end; bars nest.
inline void expect_viewable(const nlohmann::json& trace) {
  ASSERT_TRUE(trace.is_object());
  ASSERT_TRUE(trace["traceEvents"].is_array());
  std::map<std::pair<int, int>, std::vector<Bar>> lanes;
  std::map<std::tuple<std::string, std::string, std::string>, int> open;
  for (const auto& event : trace["traceEvents"]) {
    ASSERT_TRUE(event["ph"].is_string() && event["pid"].is_number_unsigned()) << event;
    ASSERT_TRUE(event["name"].is_string()) << event;
    const std::string phase = event["ph"];
    if (phase == "M") {
      ASSERT_TRUE(event["args"].is_object()) << event;
      continue;
    }
    ASSERT_TRUE(event["ts"].is_number() && event["tid"].is_number_unsigned()) << event;
    if (phase == "X") {
      const double start = event["ts"];
      ASSERT_GE(event["dur"].get<double>(), 0) << event;
      lanes[{event["pid"], event["tid"]}].push_back({start, start + event["dur"].get<double>(), event["name"]});
    } else if (phase == "i") {
      ASSERT_TRUE(event["s"] == "t" || event["s"] == "p") << event;
    } else {
      ASSERT_TRUE(phase == "b" || phase == "e") << event;
      int& count = open[{event["cat"], event["id"], event["name"]}];
      count += phase == "b" ? 1 : -1;
      ASSERT_TRUE(count == 0 || count == 1) << event;
    }
  }
  for (const auto& [key, count] : open) EXPECT_EQ(count, 0) << std::get<2>(key);
  for (auto& [lane, bars] : lanes) expect_nested(std::move(bars));
}

}  // namespace xoe::trace::test

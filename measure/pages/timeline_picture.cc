#include "measure/pages/timeline_picture.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/svg.h"
#include "measure/pages/event_colors.h"

namespace xoe::pages {
namespace {

constexpr double kWidth = 1000;
constexpr double kLeft = 150;  // of the bars
constexpr double kRight = 990;
constexpr double kTop = 34;
constexpr double kHead = 18;  // heights
constexpr double kLane = 22;
constexpr double kThin = 9;
constexpr double kGap = 8;
constexpr double kAxis = 26;
constexpr double kNarrowest = 0.6;
constexpr double kLetter = 7;
constexpr int kTextSize = 11;
constexpr std::string_view kEmpty = "#f4f4f4";
constexpr std::string_view kEngine = "engine";
constexpr std::size_t kNoRow = std::string::npos;

struct Row {
  double y = 0;
  double height = 0;
  std::string label = {};
  std::vector<ViewEvent> events = {};
  std::optional<std::size_t> color = {};  // of all events; none: each has that of its name
  std::string lane = {};                  // what that colour stands for
};

struct Plan {
  std::int64_t from_ns = 0;
  std::int64_t end_ns = 0;
  std::vector<std::pair<double, std::string>> headings = {};  // y, text
  std::vector<Row> rows = {};
  double height = kTop;

  Row& add_row(std::string label, double row_height, const ViewLane& lane) {
    rows.push_back({.y = height,
                    .height = row_height,
                    .label = std::move(label),
                    .color = lane_color(lane.name, lane.spans),
                    .lane = std::string(first_word(lane.name))});
    height += row_height;
    return rows.back();
  }
};

std::vector<ViewEvent> events_within(const std::vector<ViewEvent>& events, const Plan& plan) {
  std::vector<ViewEvent> found;
  std::ranges::copy_if(events, std::back_inserter(found), [&plan](const ViewEvent& event) {
    return event.start_ns < plan.end_ns && event.start_ns + event.length_ns > plan.from_ns;
  });
  return found;
}

void add_bars(const ViewLane& lane, std::size_t& engine, Plan& plan) {
  std::vector<ViewEvent> events = events_within(lane.events, plan);
  // The engine's stages follow one another: one row shows them.
  if (!lane.name.starts_with("engine: ")) {
    plan.add_row(lane.name, kLane, lane).events = std::move(events);
    return;
  }
  if (engine == kNoRow) {
    engine = plan.rows.size();
    plan.add_row(std::string(kEngine), kLane, lane);
  }
  std::ranges::move(events, std::back_inserter(plan.rows[engine].events));
}

void add_spans(const ViewLane& lane, Plan& plan) {
  std::vector<ViewEvent> events = events_within(lane.events, plan);
  const std::uint32_t rows = stack_rows(events);
  const std::size_t first = plan.rows.size();
  for (std::uint32_t row = 0; row < rows; ++row) plan.add_row(row == 0 ? lane.name : "", kThin, lane);
  for (const ViewEvent& event : events) plan.rows[first + event.row].events.push_back(event);
  plan.height += kGap / 2;
}

Plan plan_of(const Timeline& timeline, std::int64_t from_ns, std::int64_t end_ns) {
  Plan plan = {.from_ns = from_ns, .end_ns = end_ns};
  std::optional<std::int64_t> rank;
  std::size_t engine = kNoRow;
  for (const ViewLane& lane : timeline.view.lanes) {
    if (rank != lane.rank) {
      if (rank) plan.height += kGap;
      rank = lane.rank;
      engine = kNoRow;
      plan.headings.emplace_back(plan.height, rank_heading(lane.rank, timeline.summary));
      plan.height += kHead;
    }
    if (lane.spans)
      add_spans(lane, plan);
    else
      add_bars(lane, engine, plan);
  }
  return plan;
}

// Gives the colour of letters that can be read on `color`. REQUIRES: it is "#rrggbb".
std::string_view letters_on(std::string_view color) {
  const auto part = [color](std::size_t at) { return std::stoi(std::string(color.substr(at, 2)), nullptr, 16); };
  return part(1) * 0.299 + part(3) * 0.587 + part(5) * 0.114 > 120 ? "#000000" : "#ffffff";
}

class Picture {
 public:
  Picture(const Timeline& timeline, const Plan& plan)
      : texts_(timeline.view.texts), plan_(plan), svg_(kWidth, plan.height + kAxis) {}

  std::string draw(std::string_view title) && {
    const Svg::Colors& colors = svg_.colors();
    svg_.text(8, 20, Svg::Anchor::kStart, colors.ink, 13, title);
    for (const auto& [y, text] : plan_.headings) svg_.text(8, y + 13, Svg::Anchor::kStart, colors.ink, 12, text);
    for (const Row& row : plan_.rows) {
      const double middle = row.y + row.height / 2 + 4;
      if (!row.label.empty()) svg_.text(16, middle, Svg::Anchor::kStart, colors.faint, kTextSize, row.label);
      svg_.rect(kLeft, row.y + 1, kRight - kLeft, row.height - 2, kEmpty);
      for (const ViewEvent& event : row.events) add_event(row, event);
    }
    add_legend(kLeft / 2 + kLetter * static_cast<double>(title.size()));
    add_axis();
    return std::move(svg_).finish();
  }

 private:
  double across(std::int64_t ns) const {
    return kLeft + static_cast<double>(ns - plan_.from_ns) / static_cast<double>(plan_.end_ns - plan_.from_ns) *
                       (kRight - kLeft);
  }

  void add_event(const Row& row, const ViewEvent& event) {
    const std::string& name = texts_[event.name];
    const std::string_view color = kEventColors[row.color ? *row.color : event_color(name)];
    const double x = across(std::max(event.start_ns, plan_.from_ns));
    const double width = std::max(across(std::min(event.start_ns + event.length_ns, plan_.end_ns)) - x, kNarrowest);
    svg_.rect(x, row.y + 1.5, width, row.height - 3, color, fmt::format("{}: {}", name, time_text(event.length_ns)));
    if (row.height >= kLane && width > kLetter * static_cast<double>(name.size()))
      svg_.text(x + 3, row.y + 15, Svg::Anchor::kStart, letters_on(color), kTextSize, name);
    const std::string_view meaning = row.color ? std::string_view(row.lane) : first_word(name);
    if (std::ranges::find(legend_, meaning, &std::pair<std::string_view, std::string_view>::first) == legend_.end())
      legend_.emplace_back(meaning, color);
  }

  void add_legend(double x) {
    for (const auto& [name, color] : legend_) {
      const double width = kLetter * static_cast<double>(name.size());
      if (x + width > kWidth - 2 * kGap) return;
      svg_.rect(x, 11, 10, 10, color);
      svg_.text(x + 14, 20, Svg::Anchor::kStart, svg_.colors().faint, kTextSize, name);
      x += 26 + width;
    }
  }

  void add_axis() {
    constexpr int kTicks = 5;
    for (int tick = 0; tick <= kTicks; ++tick) {
      const std::int64_t ns = (plan_.end_ns - plan_.from_ns) / kTicks * tick;
      svg_.text(across(plan_.from_ns + ns), plan_.height + 16,
                tick == kTicks ? Svg::Anchor::kEnd : Svg::Anchor::kMiddle, svg_.colors().faint, kTextSize,
                fmt::format("{:.3g} ms", static_cast<double>(ns) * 1e-6));
    }
  }

  const std::vector<std::string>& texts_;
  const Plan& plan_;
  Svg svg_;
  std::vector<std::pair<std::string_view, std::string_view>> legend_;  // name, colour
};

}  // namespace

Result<std::string> timeline_svg(const Timeline& timeline, const Stretch& stretch, std::string_view title) {
  const auto from_ns = static_cast<std::int64_t>(stretch.from_s * 1e9);
  const auto end_ns = std::min(from_ns + static_cast<std::int64_t>(stretch.length_ms * 1e6), timeline.view.length_ns);
  if (end_ns <= from_ns)
    return failure(Code::kInvalidArgument, "no events {} s after the first: the timeline has {}", stretch.from_s,
                   time_text(timeline.view.length_ns));
  const Plan plan = plan_of(timeline, from_ns, end_ns);
  return Picture(timeline, plan).draw(title);
}

}  // namespace xoe::pages

#include "tools/data/verbs/compare_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace xoe::tools {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 380;
constexpr double kTop = 84;
constexpr double kPlotHeight = 230;

constexpr std::string_view kInk = "#24292f";
constexpr std::string_view kFaint = "#6e7781";
constexpr std::string_view kGrid = "#e3e7eb";
constexpr std::string_view kOldColor = "#c2570c";
constexpr std::string_view kNewColor = "#0b6bcb";

template <class... Args>
void add(std::string& svg, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(svg), format, std::forward<Args>(args)...);
}

void add_text(std::string& svg, double x, double y, std::string_view anchor, std::string_view color, int size,
              std::string_view text) {
  add(svg, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\" font-size=\"{}\">{}</text>\n", x, y, anchor,
      color, size, text);
}

// A round number not below `value`.
double round_up(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(std::max(value, 1e-9))));
  for (const double step : {1.0, 2.0, 5.0})
    if (step * power >= value) return step * power;
  return 10 * power;
}

struct Panel {
  double left = 0;
  double width = 0;
  double top_value = 1;  // at the upper end

  double y(double value) const { return kTop + kPlotHeight * (1 - value / top_value); }
};

void add_grid(std::string& svg, const Panel& panel, std::string_view title, bool percent) {
  add_text(svg, panel.left, kTop - 14, "start", kInk, 14, title);
  for (int i = 0; i <= 4; ++i) {
    const double value = panel.top_value * i / 4;
    add(svg, "<line x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\"/>\n", panel.left,
        panel.left + panel.width, panel.y(value), kGrid);
    add_text(svg, panel.left - 8, panel.y(value) + 4, "end", kFaint, 12,
             percent ? fmt::format("{:.0f} %", 100 * value) : fmt::format("{:.0f}", value));
  }
}

// A pair of bars for each number of ranks; `wanted` marks what the consumers could take.
template <class Value>
void add_bars(std::string& svg, const Panel& panel, std::span<const WayResult> figures, bool percent, Value value) {
  std::vector<int> ranks;
  for (const WayResult& one : figures)
    if (std::ranges::find(ranks, one.ranks) == ranks.end()) ranks.push_back(one.ranks);
  const double group = panel.width / static_cast<double>(ranks.size());
  const double bar = group * 0.34;
  for (const WayResult& one : figures) {
    const auto at = static_cast<double>(std::ranges::find(ranks, one.ranks) - ranks.begin());
    const bool old = one.way == "old";
    const double left = panel.left + at * group + group / 2 + (old ? -bar - 2 : 2);
    const double y = panel.y(std::min(value(one), panel.top_value));
    add(svg, "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", left, y, bar,
        kTop + kPlotHeight - y, old ? kOldColor : kNewColor);
    add_text(svg, left + bar / 2, y - 5, "middle", kInk, 11,
             percent ? fmt::format("{:.0f} %", 100 * value(one)) : fmt::format("{:.0f}", value(one)));
    if (!percent && !old) {
      const double middle = panel.left + at * group + group / 2;
      add(svg,
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-dasharray=\"4 3\"/>\n",
          middle - bar - 10, panel.y(one.wanted), middle + bar + 10, panel.y(one.wanted), kInk);
    }
  }
  for (std::size_t i = 0; i < ranks.size(); ++i)
    add_text(svg, panel.left + (static_cast<double>(i) + 0.5) * group, kTop + kPlotHeight + 20, "middle", kFaint, 12,
             fmt::format("{} rank{}", ranks[i], ranks[i] == 1 ? "" : "s"));
}

}  // namespace

std::string compare_svg(std::span<const WayResult> figures, double step_ms, int batch) {
  std::string svg;
  add(svg,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"system-ui, sans-serif\">\n<rect width=\"{0}\" height=\"{1}\" rx=\"6\" fill=\"#ffffff\" "
      "stroke=\"{2}\"/>\n",
      kWidth, kHeight, kGrid);
  add_text(svg, 24, 32, "start", kInk, 17,
           fmt::format("Reading images: a step of {} images takes {:.0f} ms on each rank", batch, step_ms));
  double most = 0;
  for (const WayResult& one : figures) most = std::max({most, one.images_per_s, one.wanted});
  const Panel speed{.left = 76, .width = 380, .top_value = round_up(1.05 * most)};
  add_grid(svg, speed, "images/s of all ranks; dashed: what they could take", false);
  add_bars(svg, speed, figures, false, [](const WayResult& one) { return one.images_per_s; });
  const Panel idle{.left = 548, .width = 380, .top_value = 1};
  add_grid(svg, idle, "share of time that the consumers idle", true);
  add_bars(svg, idle, figures, true, [](const WayResult& one) { return one.idle_share; });
  for (const auto& [x, color, text] : {std::tuple{76.0, kOldColor, "old way: decode, then shard"},
                                       std::tuple{330.0, kNewColor, "new way: shard, then decode into the batch"}}) {
    add(svg, "<rect x=\"{:.1f}\" y=\"348\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", x, color);
    add_text(svg, x + 18, 359, "start", kInk, 13, text);
  }
  svg += "</svg>\n";
  return svg;
}

}  // namespace xoe::tools

#include "measure/pages/bars.h"

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"

namespace xoe::pages {
namespace {

constexpr double kEdge = 24;
constexpr double kTitle = 44;  // heights, with the space below
constexpr double kHead = 30;
constexpr double kRow = 22;
constexpr double kBar = 16;
constexpr double kSpace = 8;              // beside a bar
constexpr std::size_t kLongestName = 52;  // bytes
constexpr double kShortestBar = 2;

std::string shortened_name(const std::string& name) {
  const std::string_view kept = shortened_utf8(name, kLongestName);
  return kept.size() == name.size() ? name : std::string(kept) + "…";
}

double width_of(std::string_view text) {
  const auto starts_letter = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; };
  return kBarsLetter * static_cast<double>(std::ranges::count_if(text, starts_letter));
}

struct Layout {
  double left = 0;    // of the bars
  double room = 0;    // of the longest bar
  double height = 0;  // of the picture
};

// The longest texts have their full length.
Layout layout_of(std::span<const BarGroup> groups, double top) {
  double names = 0, texts = 0, height = top + kEdge / 2;
  for (const BarGroup& group : groups) {
    height += (group.title.empty() ? 0 : kHead) + kRow * static_cast<double>(group.bars.size());
    for (const Bar& bar : group.bars) {
      names = std::max(names, width_of(shortened_name(bar.name)));
      texts = std::max(texts, width_of(bar.text));
    }
  }
  const double left = kEdge + names + kSpace;
  return {.left = left, .room = kBarsWidth - kEdge - texts - kSpace - left, .height = height};
}

}  // namespace

std::string bars_svg(std::string_view title, std::span<const BarGroup> groups, const BarColors& colors) {
  using Anchor = Svg::Anchor;
  double y = title.empty() ? 0 : kTitle;
  const Layout layout = layout_of(groups, y);
  Svg svg(kBarsWidth, layout.height, colors.texts);
  if (!title.empty()) svg.text(kEdge, 32, Anchor::kStart, colors.texts.ink, 17, title);
  for (const BarGroup& group : groups) {
    if (!group.title.empty()) {
      svg.text(kEdge, y + 19, Anchor::kStart, colors.texts.ink, 15, group.title);
      y += kHead;
    }
    const double most = std::ranges::max(group.bars, {}, &Bar::value).value;
    for (const Bar& bar : group.bars) {
      const double length = std::max(kShortestBar, layout.room * bar.value / most);
      svg.text(kEdge, y + 13, Anchor::kStart, colors.texts.ink, 13, shortened_name(bar.name));
      svg.rect(layout.left, y, length, kBar, bar.marked ? colors.marked : colors.others);
      svg.text(layout.left + length + kSpace, y + 13, Anchor::kStart, colors.texts.faint, 13, bar.text);
      y += kRow;
    }
  }
  return std::move(svg).finish();
}

}  // namespace xoe::pages

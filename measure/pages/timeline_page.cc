#include "measure/pages/timeline_page.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "measure/pages/result_page.h"

namespace xoe::pages {

std::string timeline_page(const Timeline& timeline, const std::string& title) {
  const auto& summary = timeline.summary;
  return result_html({.title = title,
                      .subtitle = fmt::format(
                          "{}, {}, {}", counted(static_cast<std::int64_t>(summary.ranks.size()), "rank"),
                          counted(static_cast<std::int64_t>(timeline.view.events + timeline.view.left_out), "event"),
                          time_text(summary.wall_ns)),
                      .timelines = {{"", &timeline}}});
}

}  // namespace xoe::pages

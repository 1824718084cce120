// The files of measure/pages/assets, as text.
#pragma once

#include <string_view>

namespace xoe::pages::assets {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kTimelineHtml;
extern const std::string_view kTimelineJs;
extern const std::string_view kPlotsJs;

}  // namespace xoe::pages::assets

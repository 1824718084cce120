// The files of src/pages/assets, as text.
#pragma once

#include <string_view>

namespace xoe::pages::assets {

extern const std::string_view page_html;
extern const std::string_view page_css;
extern const std::string_view timeline_html;
extern const std::string_view timeline_js;
extern const std::string_view plots_js;

}  // namespace xoe::pages::assets

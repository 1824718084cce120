// HTML pages of one file, which need nothing from elsewhere. Texts of traces and runs may be anybody's: they reach a
// page only through html_text() and as data.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/svg.h"
#include "xoe/status.h"

namespace xoe::pages {

// Of a picture within a page, light or dark.
inline constexpr Svg::Colors kPageColors = {
    .ink = "var(--ink)", .faint = "var(--faint)", .grid = "var(--grid)", .ground = ""};

struct Page {
  std::string title;                                      // as text
  std::string body;                                       // as HTML
  std::vector<std::pair<std::string, std::string>> data;  // JSON, by the id of its element
  std::vector<std::string_view> scripts;                  // run after the body, in this order
};

std::string html_of(const Page& page);

// Text within an element or an attribute.
std::string html_text(std::string_view text);
// JSON within a script element: nothing in it ends the element.
std::string script_json(std::string_view json);

// `PATH.html` for `PATH.json`.
std::string page_path(const std::string& path);
// `invalid_argument`: a file is there that is no page of Xoe. Such a page is replaced, any file with `overwrite`.
Status write_page(const std::string& path, std::string_view html, bool overwrite);

}  // namespace xoe::pages

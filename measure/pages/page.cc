#include "measure/pages/page.h"

#include <unistd.h>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/output_file.h"
#include "core/base/utf8.h"
#include "measure/pages/assets.h"

namespace xoe::pages {
namespace {

constexpr std::string_view kMark = "<meta name=\"generator\" content=\"xoe\">";  // as in page.html
constexpr std::size_t kMarkWithin = 512;                                         // bytes

// Puts `value` in the place of {{name}}; what was put in is not looked through again.
class Template {
 public:
  explicit Template(std::string_view text) : rest_(text) {}
  // REQUIRES: {{name}} follows the places that were filled before.
  void fill(std::string_view name, std::string_view value) {
    const std::string place = "{{" + std::string(name) + "}}";
    const std::size_t at = rest_.find(place);
    out_.append(rest_.substr(0, at)).append(value);
    rest_.remove_prefix(at + place.size());
  }
  std::string finish() && { return std::move(out_.append(rest_)); }

 private:
  std::string_view rest_;
  std::string out_;
};

}  // namespace

std::string html_of(const Page& page) {
  std::string blocks;
  for (const auto& [id, json] : page.data)
    blocks.append("<script type=\"application/json\" id=\"")
        .append(id)
        .append("\">")
        .append(script_json(json))
        .append("</script>\n");
  for (const std::string_view script : page.scripts) blocks.append("<script>\n").append(script).append("</script>\n");
  Template html(assets::kPageHtml);
  html.fill("title", html_text(page.title));
  html.fill("style", assets::kPageCss);
  html.fill("body", page.body);
  html.fill("scripts", blocks);
  return std::move(html).finish();
}

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : printable_utf8(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string script_json(std::string_view json) {
  // In JSON these characters stand in strings only.
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else if (c == '>')
      out += "\\u003e";
    else if (c == '&')
      out += "\\u0026";
    else
      out += c;
  }
  return out;
}

std::string page_path(const std::string& path) {
  constexpr std::string_view kEnd = ".json";
  return (path.ends_with(kEnd) ? path.substr(0, path.size() - kEnd.size()) : path) + ".html";
}

Status write_page(const std::string& path, std::string_view html, bool overwrite) {
  if (!overwrite && ::access(path.c_str(), F_OK) == 0) {
    const auto start = read_start(path, kMarkWithin);
    if (!start || start->find(kMark) == std::string::npos)
      return failure(Code::kInvalidArgument,
                     "{} is there already, and no page of Xoe; choose another file, or --overwrite", path);
  }
  return write_file(path, html);
}

}  // namespace xoe::pages

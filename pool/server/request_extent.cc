#include "pool/server/request_extent.h"

#include <algorithm>
#include <cctype>

#include "core/base/text.h"

namespace xoe::pool {
namespace {

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

RequestExtent extent_of(std::string_view received, std::size_t searched) {
  static constexpr std::string_view kEnd = "\n\r\n";
  RequestExtent extent;
  const auto end = received.find(kEnd, searched < kEnd.size() ? 0 : searched - kEnd.size());
  if (end == std::string_view::npos) {
    if (received.size() >= kMaxHead) extent.head = received.size();
    return extent;
  }
  extent.head = end + kEnd.size();
  const std::string_view head = received.substr(0, extent.head);
  extent.is_report = head.starts_with("POST /v1/report ");
  extent.wants_continue = same_word(header_of(head, "Expect"), "100-continue");
  // A body of another method, or with an encoding, is refused, and not waited for.
  const bool waited_for = head.starts_with("POST ") && header_of(head, "Content-Encoding").empty() &&
                          header_of(head, "Transfer-Encoding").empty();
  if (const auto length = parse_integer(header_of(head, "Content-Length")); length && waited_for)
    extent.body = static_cast<std::size_t>(std::max<std::int64_t>(0, *length));
  return extent;
}

std::string_view header_of(std::string_view head, std::string_view name) {
  for (auto end = head.find('\n'); end != std::string_view::npos; end = head.find('\n')) {
    head.remove_prefix(end + 1);
    const std::string_view line = head.substr(0, head.find('\n'));
    const auto colon = line.find(':');
    if (colon != std::string_view::npos && same_word(line.substr(0, colon), name))
      return trimmed(line.substr(colon + 1));
  }
  return {};
}

}  // namespace xoe::pool

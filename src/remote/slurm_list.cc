#include "remote/slurm_list.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace xoe::remote {
namespace {

constexpr std::size_t kMaxExpanded = 65536;

tl::unexpected<Error> malformed(std::string_view text) {
  return failure(Code::kInvalidArgument, "host list \"{}\": expected e.g. n[1-3,07],login", text);
}

// At commas outside of brackets.
Result<std::vector<std::string_view>> split_names(std::string_view text) {
  std::vector<std::string_view> names;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[' || c == ']') {
      if (inside == (c == '[')) return malformed(text);
      inside = c == '[';
    } else if (c == ',' && !inside) {
      if (i == begin) return malformed(text);
      names.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (inside) return malformed(text);
  return names;
}

// "1-3,07" to {"1", "2", "3", "07"}.
Result<std::vector<std::string>> expand_ranges(std::string_view ranges, std::string_view text) {
  std::vector<std::string> numbers;
  for (const std::string& range : split_text(ranges, ',')) {
    const auto dash = range.find('-');
    const std::string low = range.substr(0, dash);
    const std::string high = dash == std::string::npos ? low : range.substr(dash + 1);
    const auto digits = [](const std::string& word) {
      return !word.empty() && word.size() < 10 && word.find_first_not_of("0123456789") == std::string::npos;
    };
    if (!digits(low) || !digits(high)) return malformed(text);
    const auto first = *parse_integer(low);
    const auto last = *parse_integer(high);
    if (last < first || static_cast<std::size_t>(last - first) >= kMaxExpanded || numbers.size() >= kMaxExpanded)
      return malformed(text);
    for (auto number = first; number <= last; ++number) numbers.push_back(fmt::format("{:0{}}", number, low.size()));
  }
  return numbers;
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
  XOE_ASSIGN(const auto names, split_names(text));
  std::vector<std::string> all;
  for (std::string_view name : names) {
    std::vector<std::string> expanded{""};
    while (!name.empty()) {
      const auto open = name.find('[');
      for (std::string& one : expanded) one.append(name.substr(0, open));
      if (open == std::string_view::npos) break;
      const auto close = name.find(']', open);
      XOE_ASSIGN(const auto numbers, expand_ranges(name.substr(open + 1, close - open - 1), text));
      if (expanded.size() * numbers.size() > kMaxExpanded) return malformed(text);
      std::vector<std::string> next;
      for (const std::string& one : expanded)
        for (const std::string& number : numbers) next.push_back(one + number);
      expanded = std::move(next);
      name.remove_prefix(close + 1);
    }
    if (all.size() + expanded.size() > kMaxExpanded) return malformed(text);
    all.insert(all.end(), expanded.begin(), expanded.end());
  }
  return all;
}

}  // namespace xoe::remote

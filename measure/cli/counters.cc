#include "measure/cli/counters.h"

#include <string>

#include "core/base/text.h"

namespace xoe::bench {

std::uint64_t counter_of(std::string_view metrics, std::string_view series, std::string_view label) {
  std::uint64_t sum = 0;
  for (const std::string& line : split_text(metrics, '\n')) {
    const std::size_t end = line.find("} ");
    if (!line.starts_with(series) || line.substr(series.size(), 1) != "{" || end == std::string::npos) continue;
    if (line.substr(0, end).find(label) == std::string::npos) continue;
    if (const auto value = parse_integer(std::string_view(line).substr(end + 2)); value && *value > 0)
      sum += static_cast<std::uint64_t>(*value);
  }
  return sum;
}

}  // namespace xoe::bench

// Files that `xoe bench compare` reads: any bytes; what is taken can be compared and shown.
#include <string>

#include "measure/cli/against.h"
#include "measure/cli/articles.h"
#include "measure/cli/compare.h"
#include "target.h"

XOE_FUZZ_TARGET(measurements_fuzz) {
  using namespace xoe::bench;
  const auto file = parse_measurements({reinterpret_cast<const char*>(bytes), size}, "f.json");
  if (!file) {
    xoe::require(file.error().message().starts_with("f.json: "));
    return 0;
  }
  xoe::require(!file->measurements.empty());
  for (const Measurement& one : file->measurements) {
    xoe::require(!one.name.empty() && !one.runs.empty());
    for (const double run : one.runs) xoe::require(run > 0 && run < 1e30);
  }
  // More would be slow, and nothing new.
  if (size > 1 << 12) return 0;
  const Comparison comparison = compare_results(file->measurements, 1);
  const auto plain = [](const std::string& text) {
    for (const char c : text)
      if (c != '\n' && static_cast<unsigned char>(c) < 0x20) return false;
    return true;
  };
  xoe::require(plain(comparison_text(comparison)));
  const std::string page = comparison_page(comparison);
  xoe::require(page.ends_with("</html>\n") && page.find("=\"nan") == std::string::npos);
  if (const auto against = stand_against(file->measurements, *read_articles())) {
    xoe::require(plain(against_text(*against)));
    xoe::require(against_page(*against).ends_with("</html>\n"));
  }
  return 0;
}

// Reports of other hosts: any bytes; what is taken comes through a second time unchanged, and shows no control
// character.
#include <algorithm>
#include <string>

#include "core/testing/fuzz/memory_file.h"
#include "launch/doctor/report/report.h"
#include "target.h"

XOE_FUZZ_TARGET(report_fuzz) {
  using namespace xoe::doctor;
  const auto report = parse_report({reinterpret_cast<const char*>(bytes), size});
  if (!report) return 0;
  const std::string text = to_line(json_of(*report));
  const auto again = parse_report(text);
  xoe::require(again && to_line(json_of(*again)) == text);
  const std::string shown = report_text(*report, {.verbose = true});
  xoe::require(std::none_of(shown.begin(), shown.end(),
                            [](char c) { return c != '\n' && static_cast<unsigned char>(c) < 0x20; }));
  return 0;
}

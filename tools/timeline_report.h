// What `xoe timeline` says, for people and for programs.
#pragma once

#include <string>

#include "trace/merge.h"
#include "trace/summary.h"

namespace xoe::tools {

struct ReportOptions {
  bool colours = false;
  bool each_rank = false;  // every lane of every rank
};

// Tables; several lines.
std::string summary_text(const trace::TraceSummary& summary, const ReportOptions& options);
// One JSON object in one line. Times in ns.
std::string summary_json(const trace::TraceSummary& summary);
std::string merge_text(const trace::MergeReport& report, const std::string& output);
std::string merge_json(const trace::MergeReport& report, const std::string& output);
// What a reader should know of a file that is not as it should be; empty if it is.
std::vector<std::string> summary_warnings(const trace::TraceSummary& summary);

}  // namespace xoe::tools

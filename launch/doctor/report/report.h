// A report about one machine, for people and for programs. The form of the JSON is in docs/reference/doctor.md.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launch/doctor/report/finding.h"
#include "xoe/status.h"

namespace xoe::doctor {

inline constexpr int kSchema = 1;

struct Address {
  std::string interface;
  std::string address;
};

struct Report {
  std::string host = {};
  std::map<std::string, std::string> versions =
      {};  // "xoe", "kernel", "driver", "cuda", "nccl", "python", "torch"; empty: not there
  std::vector<Address> addresses = {};    // by which other hosts may reach this one
  std::vector<std::string> engines = {};  // loading_engines()
  Findings findings = {};
};

struct TextOptions {
  bool colours = false;
  bool verbose = false;  // also the reasons, the checks that passed, and details
  int width = 100;       // columns at which lines are broken
};

struct Count {
  int of[5] = {};  // by Severity
  int operator[](Severity state) const { return of[static_cast<int>(state)]; }
};

Count count_severities(const Findings& findings);
std::string count_text(const Count& count);  // "12 ok, 3 notes, 1 warning"

// The findings by group, without control characters: a report of another machine cannot move the cursor.
std::string findings_text(const Findings& findings, const TextOptions& options);
std::string report_text(const Report& report, const TextOptions& options);

Json json_of(const Finding& finding);
Json json_of(const Count& count);
Json json_of(const Report& report);
std::string to_line(const Json& json);  // one line

// A report of another host; `data_loss` when it is not one.
Result<Report> parse_report(std::string_view json);

// Without control characters, cut at so many bytes.
std::string printable(std::string_view text, std::size_t most = 2000);

}  // namespace xoe::doctor

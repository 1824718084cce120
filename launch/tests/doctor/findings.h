// Shared by the tests of the doctor.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/places.h"
#include "launch/doctor/examine.h"

namespace xoe::doctor {

inline std::ostream& operator<<(std::ostream& out, Severity state) { return out << severity_name(state); }

inline std::string tree_path(const std::string& name) { return built_file("doctor_trees/" + name); }

inline const Finding& find(const Findings& findings, std::string_view id) {
  static const Finding kNone{.id = "none.none", .severity = Severity::kSkipped, .what = "no such finding"};
  for (const Finding& finding : findings)
    if (finding.id == id) return finding;
  ADD_FAILURE() << "no finding " << id;
  return kNone;
}

// The states of some findings.
inline void expect_states(const Findings& findings, std::initializer_list<std::pair<const char*, Severity>> wanted) {
  for (const auto& [id, state] : wanted) {
    const Finding& finding = find(findings, id);
    EXPECT_EQ(finding.severity, state) << id << ": " << finding.what;
    EXPECT_FALSE((state == Severity::kWarning || state == Severity::kProblem) && finding.fix.empty()) << id;
  }
}

// Sets a variable for a while.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() { ::unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace xoe::doctor

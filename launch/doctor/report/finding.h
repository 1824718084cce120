// The result of a check.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xoe::doctor {

using Json = nlohmann::ordered_json;

enum class Severity : std::uint8_t {
  kOk,
  kNote,     // worth knowing; nothing is wrong
  kWarning,  // it works, but slower or with less room than it could
  kProblem,  // something that Xoe or a training needs does not work
  kSkipped,  // could not be checked here
};

inline constexpr Severity kSeverities[] = {Severity::kOk, Severity::kNote, Severity::kWarning, Severity::kProblem,
                                           Severity::kSkipped};

constexpr std::string_view severity_name(Severity severity) noexcept {
  constexpr std::string_view kNames[] = {"ok", "note", "warning", "problem", "skipped"};
  return kNames[static_cast<int>(severity)];
}

struct Finding {
  std::string id;  // GROUP.NAME, the same in every version: "memory.shm"
  Severity severity = Severity::kOk;
  std::string what;               // the observation
  std::string why = {};           // why it matters
  std::string fix = {};           // the remedy; empty: none is needed
  std::string manifest = {};      // in a pod: the lines of its manifest that are the remedy; empty: none are
  Json details = Json::object();  // for programs
  std::string table = {};         // for people, several lines; empty: none

  void report(Severity found, std::string observation) {
    severity = found;
    what = std::move(observation);
  }
  void report(Severity found, std::string observation, std::string remedy) {
    report(found, std::move(observation));
    fix = std::move(remedy);
  }
  void advise(Severity found, std::string remedy) {
    severity = found;
    fix = std::move(remedy);
  }
  std::string_view group() const noexcept { return std::string_view(id).substr(0, id.find('.')); }
};

using Findings = std::vector<Finding>;

// The lines of a pod's manifest that mend what a check has found: below the container NAME, and below the pod's spec;
// either may be empty. Outside of Kubernetes they are dropped.
std::string manifest_lines(std::string_view container, std::string_view pod);
inline constexpr std::string_view kOneGpu = R"(resources: {limits: {nvidia.com/gpu: "1"}})";
inline constexpr std::string_view kRuntimesSeccomp = "securityContext: {seccompProfile: {type: RuntimeDefault}}";
std::string memory_limit_line(std::uint64_t bytes);  // "resources: {limits: {memory: 4Gi}}", rounded up

// null: not known.
template <class T>
Json json_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

inline void append(Findings& all, Findings more) { std::move(more.begin(), more.end(), std::back_inserter(all)); }

}  // namespace xoe::doctor

#include "core/base/error.h"
#include "launch/doctor/report/report.h"

namespace xoe::doctor {
namespace {

constexpr std::size_t kMaxFindings = 10'000;
constexpr std::size_t kMaxAddresses = 64;

// Empty unless it is text.
std::string text_at(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

const Json* array_at(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_array() ? &*at : nullptr;
}

Result<Finding> parse_finding(const Json& json) {
  if (!json.is_object()) return failure(Code::kDataLoss, "a finding is no object");
  Finding finding{.id = text_at(json, "id"),
                  .what = text_at(json, "what"),
                  .why = text_at(json, "why"),
                  .fix = text_at(json, "fix"),
                  .manifest = text_at(json, "manifest")};
  const std::string name = text_at(json, "state");
  const auto* const state = std::ranges::find(kSeverities, name, severity_name);
  if (state == std::end(kSeverities) || finding.id.find('.') == std::string::npos)
    return failure(Code::kDataLoss, "a finding with id \"{}\" and state \"{}\"", printable(finding.id, 60),
                   printable(name, 60));
  finding.severity = *state;
  if (const auto details = json.find("details"); details != json.end() && details->is_object())
    finding.details = *details;
  return finding;
}

}  // namespace

Json json_of(const Finding& finding) {
  return {{"id", finding.id},
          {"group", finding.group()},
          {"state", severity_name(finding.severity)},
          {"what", finding.what},
          {"why", finding.why},
          {"fix", finding.fix},
          {"manifest", finding.manifest},
          {"details", finding.details}};
}

Json json_of(const Count& count) {
  Json json = Json::object();
  for (const Severity state : kSeverities) json[std::string(severity_name(state))] = count[state];
  return json;
}

Json json_of(const Report& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings) findings.push_back(json_of(finding));
  Json addresses = Json::array();
  for (const Address& address : report.addresses)
    addresses.push_back({{"interface", address.interface}, {"address", address.address}});
  return {{"schema", kSchema},
          {"host", report.host},
          {"versions", report.versions},
          {"addresses", std::move(addresses)},
          {"engines", report.engines},
          {"findings", std::move(findings)},
          {"summary", json_of(count_severities(report.findings))}};
}

std::string to_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<Report> parse_report(std::string_view text) {
  // Nothing of ours is deeper than some levels; what is, is dropped.
  constexpr int kMaxDepth = 32;
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; };
  const Json json = Json::parse(text, shallow, false);
  if (!json.is_object() || json.value("schema", Json()) != kSchema)
    return failure(Code::kDataLoss, "no report of `xoe doctor` of schema {}", kSchema);
  Report report{.host = text_at(json, "host")};
  if (const Json* const engines = array_at(json, "engines"))
    for (const Json& engine : *engines)
      if (engine.is_string() && report.engines.size() < kMaxAddresses)
        report.engines.push_back(engine.get<std::string>());
  if (const auto versions = json.find("versions"); versions != json.end() && versions->is_object())
    for (const auto& [name, version] : versions->items())
      if (version.is_string() && report.versions.size() < kMaxAddresses)
        report.versions[name] = version.get<std::string>();
  if (const Json* const addresses = array_at(json, "addresses"))
    for (const Json& address : *addresses)
      if (address.is_object() && report.addresses.size() < kMaxAddresses)
        report.addresses.push_back({text_at(address, "interface"), text_at(address, "address")});
  const Json* const findings = array_at(json, "findings");
  if (findings == nullptr || findings->size() > kMaxFindings)
    return failure(Code::kDataLoss, "a report without findings, or with too many");
  for (const Json& entry : *findings) {
    XOE_ASSIGN(Finding finding, parse_finding(entry));
    report.findings.push_back(std::move(finding));
  }
  return report;
}

}  // namespace xoe::doctor

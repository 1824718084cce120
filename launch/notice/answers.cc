#include "launch/notice/answers.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace xoe::notice {
namespace {

using Json = nlohmann::json;

constexpr auto kGcpPreemption = std::chrono::seconds(30);
constexpr auto kGcpMaintenance = std::chrono::seconds(60);
constexpr std::size_t kQuoted = 100;

std::string shown(std::string_view text) { return printable_utf8(shortened_utf8(text, kQuoted)); }

tl::unexpected<Error> not_known(std::string_view what, std::string_view answer) {
  return failure(Code::kInvalidArgument, "{}: the answer is not known: {}", what, shown(answer));
}

std::string text_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<Time> parse_time(std::string_view text) {
  const std::string copy(text);
  for (const char* form : {"%Y-%m-%dT%H:%M:%S", "%a, %d %b %Y %H:%M:%S"}) {
    std::tm parts = {};
    const char* const end = ::strptime(copy.c_str(), form, &parts);
    if (end == nullptr) continue;
    const std::string_view rest(end);
    if (rest != "Z" && rest != " GMT" && !(rest.starts_with('.') && rest.ends_with('Z'))) continue;
    return std::chrono::system_clock::from_time_t(::timegm(&parts));
  }
  return std::nullopt;
}

Result<std::optional<Departure>> parse_aws(std::string_view answer, Time now) {
  const Json json = Json::parse(answer, nullptr, false);
  if (!json.is_object()) return not_known("AWS", answer);
  const std::string action = text_of(json, "action");
  if (action != "terminate" && action != "stop" && action != "hibernate") return not_known("AWS", answer);
  const auto at = parse_time(text_of(json, "time"));
  return Departure{.at = at.value_or(now), .why = "AWS: the spot instance's action is " + action};
}

Result<std::optional<Departure>> parse_gcp_preempted(std::string_view answer, Time now) {
  const auto word = trimmed(answer);
  if (word == "FALSE") return std::nullopt;
  if (word != "TRUE") return not_known("Google Cloud", answer);
  return Departure{.at = now + kGcpPreemption, .why = "Google Cloud: the machine is preempted"};
}

Result<std::optional<Departure>> parse_gcp_maintenance(std::string_view answer, Time now) {
  const auto word = trimmed(answer);
  if (word == "NONE" || word == "MIGRATE_ON_HOST_MAINTENANCE") return std::nullopt;
  if (word != "TERMINATE_ON_HOST_MAINTENANCE") return not_known("Google Cloud", answer);
  return Departure{.at = now + kGcpMaintenance, .why = "Google Cloud: the machine is stopped for maintenance"};
}

Result<std::optional<Departure>> parse_azure(std::string_view answer, std::string_view name, Time now) {
  const Json json = Json::parse(answer, nullptr, false);
  const auto events = json.is_object() ? json.find("Events") : json.end();
  if (!json.is_object() || events == json.end() || !events->is_array()) return not_known("Azure", answer);
  std::optional<Departure> first;
  for (const Json& event : *events) {
    if (!event.is_object()) return not_known("Azure", answer);
    const std::string kind = text_of(event, "EventType");
    if (kind == "Freeze") continue;
    const auto machines = event.find("Resources");
    const auto is_ours = [name](const Json& machine) { return machine.is_string() && machine == name; };
    if (machines != event.end() && machines->is_array() && std::none_of(machines->begin(), machines->end(), is_ours))
      continue;
    // An event that has begun has no time.
    const Time at = parse_time(text_of(event, "NotBefore")).value_or(now);
    if (!first || at < first->at) first = Departure{.at = at, .why = "Azure: scheduled event " + shown(kind)};
  }
  return first;
}

}  // namespace xoe::notice

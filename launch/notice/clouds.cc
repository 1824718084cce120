#include "launch/notice/clouds.h"

#include <utility>

#include "core/base/error.h"

namespace xoe::notice {
namespace {

constexpr long kOk = 200;
constexpr long kNotFound = 404;
constexpr auto kLimit = std::chrono::seconds(5);

tl::unexpected<Error> refused(std::string_view what, const HttpAnswer& answer) {
  return failure(Code::kUnavailable, "{} answers with status {}", what, answer.status);
}

}  // namespace

std::optional<Cloud> parse_cloud(std::string_view name) {
  if (name == "aws") return Cloud::kAws;
  if (name == "gcp") return Cloud::kGcp;
  if (name == "azure") return Cloud::kAzure;
  return std::nullopt;
}

Result<HttpAnswer> MetadataServer::get(const std::string& path, std::vector<std::string> headers, std::string method) {
  auto answer = http_fetch(
      curl_, {.url = endpoint_ + path, .method = std::move(method), .headers = std::move(headers), .limit = kLimit});
  if (!answer) return failure(Code::kUnavailable, "{}{}: {}", endpoint_, path, answer.error().message());
  return answer;
}

Result<std::optional<Departure>> MetadataServer::ask() {
  switch (cloud_) {
    case Cloud::kAws: return ask_aws();
    case Cloud::kGcp: return ask_gcp();
    case Cloud::kAzure: return ask_azure();
  }
  return failure(Code::kInternal, "an unknown cloud");
}

// Each question has a token of its own, which the second version of the service wants; the first knows none.
Result<std::optional<Departure>> MetadataServer::ask_aws() {
  XOE_ASSIGN(const HttpAnswer token, get("/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds: 60"}, "PUT"));
  std::vector<std::string> headers;
  if (token.status == kOk) headers.push_back("X-aws-ec2-metadata-token: " + token.text);
  XOE_ASSIGN(const HttpAnswer answer, get("/latest/meta-data/spot/instance-action", std::move(headers)));
  if (answer.status == kNotFound) return std::nullopt;  // so says the documentation
  if (answer.status != kOk) return refused("AWS's metadata server", answer);
  return parse_aws(answer.text, std::chrono::system_clock::now());
}

Result<std::optional<Departure>> MetadataServer::ask_gcp() {
  const std::vector<std::string> headers{"Metadata-Flavor: Google"};
  XOE_ASSIGN(const HttpAnswer preempted, get("/computeMetadata/v1/instance/preempted", headers));
  if (preempted.status != kOk) return refused("Google Cloud's metadata server", preempted);
  XOE_ASSIGN(auto departure, parse_gcp_preempted(preempted.text, std::chrono::system_clock::now()));
  if (departure) return departure;
  XOE_ASSIGN(const HttpAnswer event, get("/computeMetadata/v1/instance/maintenance-event", headers));
  if (event.status != kOk) return refused("Google Cloud's metadata server", event);
  return parse_gcp_maintenance(event.text, std::chrono::system_clock::now());
}

Result<std::optional<Departure>> MetadataServer::ask_azure() {
  const std::vector<std::string> headers{"Metadata: true"};
  if (name_.empty()) {
    XOE_ASSIGN(const HttpAnswer name,
               get("/metadata/instance/compute/name?api-version=2021-02-01&format=text", headers));
    if (name.status != kOk || name.text.empty()) return refused("Azure's metadata server", name);
    name_ = name.text;
  }
  XOE_ASSIGN(const HttpAnswer events, get("/metadata/scheduledevents?api-version=2020-07-01", headers));
  if (events.status != kOk) return refused("Azure's metadata server", events);
  return parse_azure(events.text, name_, std::chrono::system_clock::now());
}

}  // namespace xoe::notice

#include "pool/server/webhook.h"

#include <httplib.h>

#include "core/base/error.h"
#include "pool/server/json.h"
#include "pool/server/no_answer.h"
#include "pool/server/system_certificates.h"
#include "pool/state/token.h"

namespace xoe::pool {

struct Webhook::Connection {
  explicit Connection(const std::string& origin) : http(origin) {}
  httplib::Client http;
};

Webhook::Webhook(Webhook&&) noexcept = default;
Webhook& Webhook::operator=(Webhook&&) noexcept = default;
Webhook::~Webhook() = default;

Webhook::Webhook(std::string url, std::string path, std::string secret, std::unique_ptr<Connection> connection)
    : url_(std::move(url)), path_(std::move(path)), secret_(std::move(secret)), connection_(std::move(connection)) {
  connection_->http.set_connection_timeout(std::chrono::seconds(3));
  connection_->http.set_read_timeout(std::chrono::seconds(5));
  connection_->http.set_write_timeout(std::chrono::seconds(5));
  if (const std::string trusted = system_certificates(Env::process()); !trusted.empty())
    connection_->http.set_ca_cert_path(trusted.c_str());
}

Result<Webhook> Webhook::create(const std::string& url, std::string secret) {
  const auto host = url.find("://");
  const bool known = url.starts_with("http://") || url.starts_with("https://");
  if (!known) return failure(Code::kInvalidArgument, "{}: not a URL such as https://chat.example/hooks/1", url);
  const auto path = url.find('/', host + 3);
  auto connection = std::make_unique<Connection>(url.substr(0, path));
  if (!connection->http.is_valid()) return failure(Code::kInvalidArgument, "{}: not a URL of the web", url);
  return Webhook(url.substr(0, path), path == std::string::npos ? "/" : url.substr(path), std::move(secret),
                 std::move(connection));
}

Status Webhook::post(const Notice& notice) {
  const Lease& lease = notice.lease;
  const Json json{{"text", sentence_of(notice)},
                  {"event", json_of(notice.event)},
                  {"lease",
                   {{"id", lease.id},
                    {"user", lease.user},
                    {"team", lease.team},
                    {"gpus", lease.gpus},
                    {"hosts", notice.hosts},
                    {"purpose", lease.request.purpose}}}};
  const std::string body = to_text(json);
  httplib::Headers headers;
  if (!secret_.empty()) headers.emplace("X-Xoe-Signature", "sha256=" + signature_of(body, secret_));
  const httplib::Result result = connection_->http.Post(path_, headers, body, "application/json");
  if (!result) return failure(Code::kUnavailable, "{} does not answer: {}", url_, why_no_answer(result.error()));
  if (result->status / 100 != 2) return failure(Code::kUnavailable, "{} answers {}", url_, result->status);
  return {};
}

}  // namespace xoe::pool

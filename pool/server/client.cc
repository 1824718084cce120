#include "pool/server/client.h"

#include <httplib.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "core/base/error.h"
#include "core/base/text.h"
#include "pool/server/loopback.h"
#include "pool/server/no_answer.h"
#include "pool/server/system_certificates.h"

namespace xoe::pool {

namespace {

// "http://[::1]:7711/" has ::1.
std::string host_of(const std::string& url) {
  const std::size_t begin = url.find("://") + 3;
  std::string authority = url.substr(begin, url.find_first_of("/?#", begin) - begin);
  if (authority.find('@') != std::string::npos) return authority;
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  return authority.substr(0, authority.find(':'));
}

std::string certificate_hint(const ClientOptions& options, httplib::Error error) {
  if (error != httplib::Error::SSLServerVerification && error != httplib::Error::SSLLoadingCerts) return {};
  if (options.ca_file.empty()) return "; --tls-ca FILE has the certificate of the one who signed it";
  return "; --tls-ca is " + options.ca_file;
}

}  // namespace

struct Client::Connection {
  explicit Connection(const std::string& url) : http(url) {}
  httplib::Client http;
};

Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

std::string Reply::message() const {
  if (const auto error = body.find("error"); error != body.end() && error->contains("message"))
    return error->at("message").get<std::string>();
  return fmt::format("the server answered {}", status);
}

Client::Client(ClientOptions options)
    : options_(std::move(options)), connection_(std::make_unique<Connection>(options_.url)) {
  httplib::Client& http = connection_->http;
  http.set_connection_timeout(std::min<Span>(std::chrono::seconds(3), options_.answer_limit));
  http.set_read_timeout(options_.answer_limit);
  http.set_keep_alive(true);
  http.set_tcp_nodelay(true);
  http.set_bearer_token_auth(options_.token.c_str());
  const std::string trusted = options_.ca_file.empty() ? system_certificates(Env::process()) : options_.ca_file;
  if (!trusted.empty()) http.set_ca_cert_path(trusted.c_str());
}

Result<Client> Client::create(ClientOptions options) {
  const bool known = options.url.starts_with("http://") || options.url.starts_with("https://");
  if (!known)
    return failure(Code::kInvalidArgument, "{}: not the URL of a pool, such as http://127.0.0.1:7711", options.url);
  if (options.url.starts_with("http://") && !is_loopback(host_of(options.url)))
    return failure(Code::kInvalidArgument,
                   "{}: everybody on the way could read the token: use https://, or an ssh tunnel to 127.0.0.1",
                   options.url);
  Client client(std::move(options));
  if (!client.connection_->http.is_valid())
    return failure(Code::kInvalidArgument, "{}: not the URL of a pool", client.options_.url);
  return client;
}

Time Client::now() const {
  if (!told_) return system_now();
  return *told_ + std::chrono::duration_cast<Span>(std::chrono::steady_clock::now() - heard_);
}

template <class Send>
Result<Reply> Client::ask(Send&& send) {
  const auto end = std::chrono::steady_clock::now() + options_.timeout;
  for (;;) {
    const httplib::Result result = send(connection_->http);
    if (const auto now = result ? parse_number(result->get_header_value(kNowHeader)) : std::nullopt;
        now && std::abs(*now) < describe::kMostSeconds) {
      told_ = Time(describe::from_seconds<Span>(*now));
      heard_ = std::chrono::steady_clock::now();
    }
    // 503: its database does not take changes now. 429: too many requests in this second.
    if (result && ((result->status != 503 && result->status != 429) || std::chrono::steady_clock::now() >= end)) {
      Json body = Json::parse(result->body, nullptr, false);
      if (!body.is_object())
        return failure(Code::kUnavailable, "{} answers, but is not a pool (HTTP {})", options_.url, result->status);
      return Reply{result->status, std::move(body)};
    }
    if (std::chrono::steady_clock::now() >= end)
      return failure(Code::kUnavailable, "the pool at {} does not answer: {}{}", options_.url,
                     why_no_answer(result.error()), certificate_hint(options_, result.error()));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

Result<Reply> Client::get(const std::string& path) {
  return ask([&](httplib::Client& http) { return http.Get(path); });
}

Result<Reply> Client::post(const std::string& path, const Json& body) {
  return ask([&](httplib::Client& http) { return http.Post(path, to_text(body), "application/json"); });
}

}  // namespace xoe::pool

#include "pool/server/answers.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "pool/server/request_extent.h"

namespace xoe::pool {
namespace {

int http_status(Code code) {
  switch (code) {
    case Code::kInvalidArgument: return 400;
    case Code::kUnsupported: return 404;
    case Code::kResourceExhausted: return 409;
    case Code::kUnavailable: return 503;
    default: return 500;
  }
}

std::string token_of_header(std::string_view header) {
  static constexpr std::string_view kScheme = "Bearer ";
  return std::string(header.starts_with(kScheme) ? header.substr(kScheme.size()) : std::string_view());
}

}  // namespace

void answer(httplib::Response& response, int status, const Json& json) {
  response.status = status;
  response.set_content(to_text(json) + "\n", "application/json");
}

void refuse(httplib::Response& response, int status, const Error& error) {
  answer(response, status, {{"error", json_of(error)}});
}

void refuse(httplib::Response& response, const Error& error) { refuse(response, http_status(error.code()), error); }

void refuse_for_now(httplib::Response& response, std::chrono::seconds wait, const Error& error) {
  response.set_header("Retry-After", std::to_string(wait.count()));
  refuse(response, 429, error);
}

void refuse_and_close(httplib::Response& response, int status, const Error& error) {
  std::string text = to_text({{"error", json_of(error)}}) + "\n";
  response.status = status;
  response.set_header("Connection", "close");
  const std::size_t size = text.size();
  // The server closes a connection whose content ends before its time, as this does after its last byte.
  response.set_content_provider(size, "application/json",
                                [text = std::move(text)](std::size_t, std::size_t, httplib::DataSink& sink) {
                                  sink.write(text.data(), text.size());
                                  return false;
                                });
}

std::string bearer_token(const httplib::Request& request) {
  return token_of_header(request.get_header_value("Authorization"));
}

std::string bearer_token(std::string_view head) { return token_of_header(header_of(head, "Authorization")); }

Result<std::int64_t> query_number(const httplib::Request& request, const char* name, std::int64_t otherwise,
                                  std::int64_t low, std::int64_t high) {
  if (!request.has_param(name)) return otherwise;
  const std::string text = request.get_param_value(name);
  const auto number = parse_integer(text);
  if (!number || *number < low || *number > high || request.get_param_value_count(name) != 1)
    return failure(Code::kInvalidArgument, "{}: {} is not a whole number from {} to {}", name,
                   printable_utf8(text.substr(0, 64)), low, high);
  return *number;
}

}  // namespace xoe::pool

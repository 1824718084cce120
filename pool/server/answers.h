// Answers of the server: JSON objects, and refusals with a status that tells the client what to do.
#pragma once

#include <httplib.h>

#include <chrono>
#include <string>
#include <string_view>

#include "pool/server/json.h"

namespace xoe::pool {

void answer(httplib::Response& response, int status, const Json& json);
void refuse(httplib::Response& response, int status, const Error& error);
// With the status of the error's code.
void refuse(httplib::Response& response, const Error& error);
// 429: after that time it may be asked again.
void refuse_for_now(httplib::Response& response, std::chrono::seconds wait, const Error& error);

// For a request whose body was not read: on the same connection it would be taken for the next request.
void refuse_and_close(httplib::Response& response, int status, const Error& error);

// Of the header Authorization; empty: there is none.
std::string bearer_token(const httplib::Request& request);
// The same of a request's first bytes.
std::string bearer_token(std::string_view head);

// A number in the request's query. `invalid_argument`: it is no whole number from `low` to `high`.
Result<std::int64_t> query_number(const httplib::Request& request, const char* name, std::int64_t otherwise,
                                  std::int64_t low, std::int64_t high);

}  // namespace xoe::pool

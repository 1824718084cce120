// The description of the HTTP interface, pool/server/openapi.json, in the form of OpenAPI 3.1.
#pragma once

#include <string_view>

namespace xoe::pool {

extern const std::string_view kOpenapiDocument;

}  // namespace xoe::pool

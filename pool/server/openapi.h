// The description of the HTTP interface in the form of OpenAPI 3.1, made from the tables of wire.h and pool/model.
#pragma once

#include <string>

namespace xoe::pool {

const std::string& openapi_document();

}  // namespace xoe::pool

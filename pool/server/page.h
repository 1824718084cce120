// The web page, as pool/web is built.
#pragma once

#include <vector>

#include "pool/server/http_server.h"

namespace xoe::pool {

// A plain one where the build had no npm.
std::vector<PageFile> web_page();

}  // namespace xoe::pool

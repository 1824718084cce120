// Gloo in this process: TCP from the address in `options`, or else from one that fits its interfaces.
#pragma once

#include <memory>

#include "backend/net/net.h"

namespace xoe::gloo {

Result<std::unique_ptr<net::Provider>> open_provider(const net::NetOptions& options);

}  // namespace xoe::gloo

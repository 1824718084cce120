// The pool over HTTP: JSON in, JSON out, a bearer token with each request. docs/reference/pool-http.md has the
// requests.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "pool/core/command_queue.h"

namespace xoe::pool {

struct ServerOptions {
  std::string address = "127.0.0.1";
  int port = 0;                                 // 0: any that is free
  std::size_t max_body = std::size_t{1} << 20;  // bytes of a request
  int threads = 256;                            // connections that are served at once
  // Both or none: files in PEM form for TLS.
  std::string certificate = {};
  std::string private_key = {};
};

// Serves from start() until it is destroyed.
class HttpServer {
 public:
  // `invalid_argument`: TLS files that cannot be used, or an address of other hosts without TLS. `unavailable`: the
  // port is taken.
  static Result<std::unique_ptr<HttpServer>> start(CommandQueue& queue, CommandQueue::Clock clock,
                                                   const ServerOptions& options);
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
};

}  // namespace xoe::pool

// The pool over HTTP: JSON in, JSON out, a bearer token with each request. docs/reference/pool-http.md has the
// requests.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pool/core/command_queue.h"
#include "pool/hooks/notifier.h"
#include "pool/server/event_stream.h"
#include "pool/server/route.h"

namespace xoe::pool {

// A file that is served to everybody, such as the web page.
struct PageFile {
  std::string_view path = {};  // "/app.js"
  std::string_view type = {};  // "text/javascript"
  std::string_view content = {};
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  int port = 0;                                     // 0: any that is free
  std::size_t max_body = std::size_t{1} << 20;      // bytes of a request
  int threads = 768;                                // requests at once; agents' reports have further ones
  std::size_t connections = 0;                      // at once; 0: 8192. At most as many as the process may open files
  Span request_timeout = std::chrono::seconds(10);  // for a client to send its request
  int rate = 1000;                                  // requests of one token in a second; 0: any number
  Span write_timeout = std::chrono::seconds(5);     // a client that takes nothing for so long is given up
  StreamLimits streams = {};
  std::vector<PageFile> page = {};
  const NoticeCounters* notices = nullptr;  // for /metrics; it outlives the server
  // Both or none: files in PEM form for TLS.
  std::string certificate = {};
  std::string private_key = {};
};

// Whether a server may be started with them: so that nothing is made for one that may not.
Status check_server_options(const ServerOptions& options);

// Serves from start() until it is destroyed.
class HttpServer {
 public:
  // `invalid_argument`: TLS files that cannot be used, or an address of other hosts without TLS. `unavailable`: the
  // port is taken.
  static Result<std::unique_ptr<HttpServer>> start(CommandQueue& queue, CommandQueue::Clock clock,
                                                   const ServerOptions& options);
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
  // Without those of the page.
  virtual const std::vector<Route>& routes() const = 0;
};

}  // namespace xoe::pool

#include "pool/server/http_server.h"

#include <fcntl.h>
#include <httplib.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <thread>

#include "core/base/error.h"
#include "pool/server/answers.h"
#include "pool/server/handlers.h"
#include "pool/server/loopback.h"
#include "pool/server/rate_limit.h"
#include "pool/server/request_collector.h"
#include "pool/state/token.h"

namespace xoe::pool {
namespace {

using httplib::Request;
using httplib::Response;

constexpr int kSendBuffer = 256 << 10;                 // bytes that wait for a client before it counts as slow
constexpr std::uint64_t kSmallBody = 4096;             // that is read of anybody
constexpr int kNewLeases = 10;                         // of one user in a second
constexpr int kNewLeasesAtOnce = 128;                  // a training may take each GPU of its host by a lease of its own
constexpr std::size_t kKeepAliveRequests = 1'000'000;  // of one connection
constexpr std::size_t kKeepAliveSeconds = 5;           // between two of them
constexpr unsigned kPeerTimeoutMilliseconds = 30'000;  // of one whose machine is gone

// The page needs nothing from elsewhere, and no other page may show it in a frame.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// Connections inherit them.
void set_socket_options(socket_t socket) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kPeerTimeoutMilliseconds, sizeof kPeerTimeoutMilliseconds);
}

// httplib's server without its way to read: it accepts connections, and serves requests that are there as a whole.
class Protocol {
 public:
  using OnSocket = std::function<void(Fd)>;
  virtual ~Protocol() = default;
  virtual httplib::Server& server() = 0;
  virtual SSL_CTX* tls() = 0;
  // httplib lets five connections wait to be accepted; each further one would try again after a second.
  virtual void widen_backlog() = 0;
  // The first request of the stream. False: the connection is over.
  virtual bool serve(httplib::Stream& stream) = 0;
  OnSocket on_socket;
};

template <class Base>
class ProtocolOf final : public Protocol, public Base {
 public:
  using Base::Base;
  httplib::Server& server() override { return *this; }
  SSL_CTX* tls() override {
    if constexpr (std::is_same_v<Base, httplib::SSLServer>)
      return this->ssl_context();
    else
      return nullptr;
  }
  void widen_backlog() override { ::listen(this->svr_sock_, SOMAXCONN); }
  bool serve(httplib::Stream& stream) override {
    bool closed = false;
    return this->process_request(stream, false, closed, nullptr) && !closed;
  }

 private:
  // Called by the thread that accepts connections.
  bool process_and_close_socket(socket_t socket) override {
    Fd fd(socket);
    ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
    ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
    on_socket(std::move(fd));
    return true;
  }
};

struct AtOnce : httplib::TaskQueue {
  void enqueue(std::function<void()> task) override { task(); }
  void shutdown() override {}
};

class RunningServer : public HttpServer {
 public:
  RunningServer(CommandQueue& queue, StoreReader reader, CommandQueue::Clock clock, const ServerOptions& options,
                std::unique_ptr<Protocol> protocol)
      : clock_(std::move(clock)),
        counters_{.notices = options.notices},
        rate_(options.rate),
        handlers_(queue, std::move(reader), clock_,
                  {.streams = options.streams,
                   .waits = static_cast<std::size_t>(options.threads) * 3 / 4,
                   .leases = options.rate == 0 ? 0 : kNewLeases,
                   .leases_at_once = kNewLeasesAtOnce},
                  counters_),
        protocol_(std::move(protocol)),
        collector_(
            {.threads = options.threads,
             .connections = options.connections,
             .max_body = options.max_body,
             .small_body = kSmallBody,
             .request_timeout = options.request_timeout,
             .idle_timeout = std::chrono::seconds(kKeepAliveSeconds),
             .tls = protocol_->tls()},
            [this](std::string_view head) { return handlers_.knows(bearer_token(head)); },
            [this, timeout = options.write_timeout](Connection& connection) {
              ReceivedStream stream(connection, timeout);
              const bool goes_on = protocol_->serve(stream);
              connection.received.erase(0, stream.consumed());
              return goes_on;
            }) {
    protocol_->on_socket = [this](Fd socket) { collector_.add(std::move(socket)); };
    handlers_.add_to(server());
    for (const PageFile& file : options.page)
      server().Get(std::string(file.path), [file](const Request&, Response& response) {
        response.set_content(file.content.data(), file.content.size(), std::string(file.type));
      });
  }
  ~RunningServer() override {
    handlers_.end();
    server().stop();
    if (thread_.joinable()) thread_.join();
    collector_.end();
  }

  Status listen(const ServerOptions& options) {
    server().set_payload_max_length(options.max_body);
    server().set_keep_alive_max_count(kKeepAliveRequests);
    server().set_keep_alive_timeout(kKeepAliveSeconds);
    server().set_tcp_nodelay(true);
    server().set_socket_options(set_socket_options);
    server().new_task_queue = [] { return new AtOnce; };
    set_handlers();
    port_ = options.port;
    const bool bound = options.port == 0 ? (port_ = server().bind_to_any_port(options.address)) > 0
                                         : server().bind_to_port(options.address, options.port);
    if (!bound)
      return failure(Code::kUnavailable,
                     "cannot listen on {} port {}: another program does, or this is no address of "
                     "this host",
                     options.address, options.port);
    protocol_->widen_backlog();
    thread_ = std::jthread([this] { server().listen_after_bind(); });
    while (!server().is_running()) std::this_thread::yield();  // until then, stop() does nothing
    return {};
  }

  int port() const override { return port_; }
  const std::vector<Route>& routes() const override { return handlers_.routes(); }

 private:
  httplib::Server& server() { return protocol_->server(); }

  void set_handlers() {
    server().set_pre_routing_handler([this](const Request& request, Response& response) {
      return look(request, response) ? httplib::Server::HandlerResponse::Unhandled
                                     : httplib::Server::HandlerResponse::Handled;
    });
    server().set_post_routing_handler([this](const Request&, Response& response) {
      response.set_header(kNowHeader, fmt::format("{:.3f}", describe::to_seconds(clock_().time_since_epoch())));
      response.set_header("Content-Security-Policy", kContentPolicy);
      response.set_header("X-Content-Type-Options", "nosniff");
      response.set_header("Referrer-Policy", "no-referrer");
      response.set_header("Cache-Control", "no-store");
    });
    server().set_error_handler([this](const Request& request, Response& response) { explain(request, response); });
    server().set_exception_handler([](const Request&, Response& response, const std::exception_ptr& caught) {
      try {
        std::rethrow_exception(caught);
      } catch (const std::exception& error) {
        refuse(response, 500, Error(Code::kInternal, error.what()));
      }
    });
    server().set_logger([this](const Request&, const Response& response) {
      const auto digit = static_cast<std::size_t>(response.status / 100);
      if (digit < counters_.answers.size()) ++counters_.answers[digit];
    });
  }

  // Before a request's body is read. False: it was refused.
  bool look(const Request& request, Response& response) {
    // Ranges may be ignored: thousands of them would make a large answer of a small one. Requests are no constants,
    // only shown as such.
    const_cast<Request&>(request).ranges.clear();
    const auto length = request.get_header_value<std::uint64_t>("Content-Length");
    if (request.method != "POST" && (length > 0 || request.has_header("Transfer-Encoding"))) {
      refuse_and_close(response, 400, Error(Code::kInvalidArgument, request.method + " with a body is not understood"));
      return false;
    }
    // The library bounds neither a body in chunks nor one that was packed.
    if (request.has_header("Transfer-Encoding")) {
      refuse_and_close(response, 411, Error(Code::kUnsupported, "a body needs a Content-Length"));
      return false;
    }
    if (request.has_header("Content-Encoding")) {
      refuse_and_close(response, 415, Error(Code::kUnsupported, "a body with a Content-Encoding is not understood"));
      return false;
    }
    const std::string token = bearer_token(request);
    if (length > kSmallBody && !handlers_.knows(token)) {
      refuse_and_close(response, 401, Error(Code::kInvalidArgument, "no user has this token"));
      return false;
    }
    if (token.empty() || rate_.take(hash_of_token(token), std::chrono::steady_clock::now())) return true;
    response.set_header("Retry-After", "1");
    refuse_and_close(response, 429, Error(Code::kResourceExhausted, "too many requests in a second with this token"));
    return false;
  }

  // What was refused before a handler saw it.
  void explain(const Request& request, Response& response) const {
    if (response.has_header("Content-Type")) return;
    const auto methods = handlers_.methods_of(request.path);
    const bool known = std::ranges::find(methods, request.method) != methods.end();
    if ((response.status == 404 || response.status == 400) && !methods.empty() && !known) {
      response.set_header("Allow", fmt::format("{}", fmt::join(methods, ", ")));
      return refuse_and_close(response, 405,
                              Error(Code::kUnsupported, fmt::format("{} takes {}, not {}", request.path,
                                                                    fmt::join(methods, " or "), request.method)));
    }
    const char* const what = response.status == 413   ? "the request is too large"
                             : response.status == 400 ? "this is no request of HTTP"
                                                      : "there is no such request";
    refuse_and_close(response, response.status,
                     Error(Code::kUnsupported, fmt::format("{} {}: {}", request.method, request.path, what)));
  }

  CommandQueue::Clock clock_;
  ServerCounters counters_;
  RateLimit rate_;
  Handlers handlers_;
  std::unique_ptr<Protocol> protocol_;
  RequestCollector collector_;
  int port_ = 0;
  std::jthread thread_;
};

Result<std::unique_ptr<Protocol>> make_protocol(const ServerOptions& options) {
  XOE_TRY(check_server_options(options));
  if (options.certificate.empty()) return std::make_unique<ProtocolOf<httplib::Server>>();
  auto server =
      std::make_unique<ProtocolOf<httplib::SSLServer>>(options.certificate.c_str(), options.private_key.c_str());
  if (!server->is_valid())
    return failure(Code::kInvalidArgument, "{} and {} are not a certificate and its private key in PEM form",
                   options.certificate, options.private_key);
  return server;
}

}  // namespace

Status check_server_options(const ServerOptions& options) {
  if (options.certificate.empty() != options.private_key.empty())
    return failure(Code::kInvalidArgument, "TLS needs a certificate and its private key");
  if (options.certificate.empty() && !is_loopback(options.address))
    return failure(Code::kInvalidArgument,
                   "{} is reachable from other hosts, who could read all tokens: give --tls-cert and --tls-key, or "
                   "listen on 127.0.0.1 behind an ssh tunnel",
                   options.address);
  return {};
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(CommandQueue& queue, CommandQueue::Clock clock,
                                                      const ServerOptions& options) {
  XOE_ASSIGN(auto made, make_protocol(options));
  std::string database;
  queue.read([&](Pool& pool) { database = pool.store().path(); });
  XOE_ASSIGN(StoreReader reader, StoreReader::open(database));
  auto server = std::make_unique<RunningServer>(queue, std::move(reader), std::move(clock), options, std::move(made));
  XOE_TRY(server->listen(options));
  return server;
}

}  // namespace xoe::pool

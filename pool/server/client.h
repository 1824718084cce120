// Asks a pool's server.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "pool/server/json.h"

namespace xoe::pool {

struct ClientOptions {
  std::string url = {};  // "http://127.0.0.1:7711"
  std::string token = {};
  std::string ca_file = {};  // certificates to trust, for https; empty: the system's
  // For how long a server that does not answer is asked again. Every request may be sent twice.
  Span timeout = std::chrono::seconds(10);
  // For one answer. The server lets requests with wait=1 wait for less.
  Span answer_limit = std::chrono::seconds(40);
};

// What the server said; a refusal is a reply, too.
struct Reply {
  int status = 0;  // of HTTP
  Json body = {};
  bool ok() const noexcept { return status == 200; }
  // Of a refusal.
  std::string message() const;
};

// One thread at a time.
class Client {
 public:
  // `invalid_argument`: no such URL.
  static Result<Client> create(ClientOptions options);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // The pool's time, which its leases end by: that of its last answer, and what has passed since; the machine's before.
  Time now() const;

  // `unavailable`: no answer within the timeout, or something else than a pool answers.
  Result<Reply> get(const std::string& path);
  Result<Reply> post(const std::string& path, const Json& body);

 private:
  struct Connection;
  explicit Client(ClientOptions options);
  template <class Send>
  Result<Reply> ask(Send&& send);

  ClientOptions options_;
  std::unique_ptr<Connection> connection_;
  std::optional<Time> told_;                          // by the last answer, which came
  std::chrono::steady_clock::time_point heard_ = {};  // then
};

}  // namespace xoe::pool

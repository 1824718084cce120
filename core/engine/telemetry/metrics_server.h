// Serves GET /metrics on the loopback interface.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::engine {

// One thread, which sleeps between requests and blocks all signals. Listens on 127.0.0.1 only. Answers one request
// after the other, each within its time or not at all, so that no client delays the destructor.
//
// Own code, because it is part of every training process: cpp-httplib would add OpenSSL and Brotli, ignores SIGPIPE for
// the whole process, and cannot stop while a slow client is connected.
class MetricsServer {
 public:
  using Text = std::function<std::string()>;

  // port: 0 for any free one. text: called by the thread for each request. timeout: for a request with its answer.
  // `unavailable`: the port is taken.
  static Result<std::unique_ptr<MetricsServer>> start(int port, Text text,
                                                      std::chrono::milliseconds timeout = std::chrono::seconds(1));
  // Ends the thread. A forked process has no such thread and abandons it.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;

  int port() const noexcept { return port_; }

 private:
  MetricsServer(Fd listener, Fd stop, int port, Text text, std::chrono::milliseconds timeout);
  void run();
  void serve(const Fd& client);

  const Fd listener_;
  const Fd stop_;  // readable: the thread must end
  const int port_;
  const Text text_;
  const std::chrono::milliseconds timeout_;
  const pid_t process_;
  std::jthread thread_;
};

// The whole response to a request. head: the request up to the empty line.
std::string answer_metrics_request(std::string_view head, const MetricsServer::Text& text);

}  // namespace xoe::engine

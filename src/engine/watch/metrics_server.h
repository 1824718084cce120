// Serves GET /metrics to this machine.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::engine {

// One thread, asleep while nobody asks; it bears no signals. Only 127.0.0.1 is listened on. Requests are answered one
// after the other, each within a second or not at all, so that nobody can keep the destructor waiting.
//
// Own code, because this lives in every training process: cpp-httplib would bring OpenSSL and Brotli along, ignores
// SIGPIPE for the whole process, and cannot end while a slow client is connected.
class MetricsServer {
 public:
  using Text = std::function<std::string()>;

  // Port 0: any that is free. `text` is called by the thread, for each request. `unavailable` names a port that is
  // taken.
  static Result<std::unique_ptr<MetricsServer>> start(int port, Text text);
  // Ends the thread. In a forked process, where there is no thread, it lets go of it.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;

  int port() const noexcept { return port_; }

 private:
  MetricsServer(Fd listener, Fd stop, int port, Text text);
  void run();
  void serve(const Fd& client);

  const Fd listener_;
  const Fd stop_;  // readable: end
  const int port_;
  const Text text_;
  const pid_t process_;
  std::jthread thread_;
};

// The whole answer to a request of which `head` is all up to the empty line.
std::string answer_metrics_request(std::string_view head, const MetricsServer::Text& text);

}  // namespace xoe::engine

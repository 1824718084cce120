// The serving half of the store, without a thread: for an event loop that somebody else runs.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "bootstrap/socket_address.h"
#include "bootstrap/store_protocol.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// Limits and patience; the defaults suit some thousand ranks.
struct StoreLimits {
  std::size_t connections = 8192;
  std::size_t strangers = 128;  // connections that have not said hello
  std::size_t keys = 65536;
  std::size_t bytes = std::size_t{64} << 20;  // of all keys and values
  std::size_t unread = std::size_t{1} << 20;  // of replies that a client did not take yet: its next requests wait then
  std::chrono::milliseconds hello_patience{5000};     // for a stranger to say hello
  std::chrono::milliseconds message_patience{10000};  // for more of a message that has begun
};

// One thread at a time.
class StoreService {
 public:
  // Clients of a unix socket are of this user and give the secret; over TCP both ends prove that they know it, which
  // must not be empty then. Port 0: a free one.
  static Result<std::unique_ptr<StoreService>> listen(const SocketAddress& address, std::string_view secret,
                                                      StoreLimits limits = {});
  ~StoreService();

  const std::string& address() const noexcept { return text_; }  // "unix:@name", "tcp:10.0.0.1:4567"
  // Readable when serve() has something to do.
  int fd() const noexcept { return epoll_.get(); }
  // Ranks were started anew, for the n-th time (0: none yet, but some may be): what was set is forgotten, whoever waits
  // for another key is told so, and kGenerationKey says n.
  void begin_generation(int n);
  // How long poll() on fd() may sleep, in milliseconds; -1: until it is readable.
  int patience_ms() const;
  // Does everything that is possible without blocking.
  void serve();

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection;

  StoreService(Fd listener, Fd epoll, std::string_view secret, StoreLimits limits);
  void accept_all();
  void welcome(Fd socket);
  // These return false when the connection is of no more use.
  bool on_ready(Connection& connection, std::uint32_t events);
  bool read_from(Connection& connection);
  bool answer_all(Connection& connection);
  bool answer_some(Connection& connection, bool& more);
  bool answer(Connection& connection, const Frame& frame);
  bool greet(Connection& connection, const Frame& frame);
  bool admit(Connection& connection, bool knows_the_secret);
  bool flush(Connection& connection);

  bool may_ask(const Connection& connection) const;
  Status set(std::string_view key, std::string_view value);
  void keep_or_drop(Connection& connection, bool keep);
  void drop(int fd);
  void drop_oldest_stranger();
  void drop_expired();
  void wake(const std::vector<int>& waiting, std::string_view value);

  Fd listener_;
  Fd epoll_;
  bool remote_;
  std::string text_;
  std::string secret_;
  StoreLimits limits_;
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t bytes_ = 0;
  std::size_t strangers_ = 0;
  std::map<std::string, std::vector<int>, std::less<>> waiters_;  // by key: connections whose get waits
  std::unordered_map<int, std::unique_ptr<Connection>> connections_;
  std::vector<int> resumed_;  // connections whose get was answered and whose next requests were not looked at yet
};

}  // namespace xoe::bootstrap

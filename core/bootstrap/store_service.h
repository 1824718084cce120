// The server of the store, without a thread of its own: for the caller's event loop.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/bootstrap/failing_rank.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store_protocol.h"
#include "core/bootstrap/world_members.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// Limits and timeouts; the defaults suit some thousand ranks.
struct StoreLimits {
  std::size_t connections = 8192;
  std::size_t unauthenticated = 128;  // connections that have not authenticated yet
  std::size_t keys = 65536;
  std::size_t bytes = std::size_t{64} << 20;      // of all keys and values
  std::size_t lost_peers = std::size_t{1} << 20;  // in all announcements that the launcher has not taken
  std::size_t unread = std::size_t{1} << 20;  // replies that a client has not read; beyond this its next requests wait
  std::chrono::milliseconds hello_timeout{5000};     // for a client to authenticate
  std::chrono::milliseconds message_timeout{10000};  // for the rest of a message that has begun
};

// One thread at a time.
class StoreService {
 public:
  // Clients of a unix socket must run as this user and send the secret. Over TCP both ends prove that they know it, and
  // it must not be empty. Port 0: any free one.
  static Result<std::unique_ptr<StoreService>> listen(const SocketAddress& address, std::string_view secret,
                                                      StoreLimits limits = {});
  ~StoreService();

  const std::string& address() const noexcept { return text_; }  // "unix:@name", "tcp:10.0.0.1:4567"
  // Readable when serve() has something to do.
  int fd() const noexcept { return epoll_.get(); }
  // Starts a version of the world after a restart of ranks or a change of their number; 0 announces that this is
  // possible. Removes all keys, fails pending gets and later requests for the keys of earlier versions (world_keys()),
  // and sets kWorldVersionKey. `members`: empty: all ranks. `kept`: all that were in this earlier version still are,
  // and go over at a step of theirs: until then they need its keys, which are kept until the next call.
  void begin_world(int version, std::span<const WorldMember> members = {}, std::optional<int> kept = {});
  // Whether a rank has set the key.
  bool has(std::string_view key) const { return values_.contains(key); }
  void remove(std::string_view key);
  // Ranks that wait for this one learn that it will not come: it ended well. `how`: "exited with code 0".
  void note_ended(int rank, std::string_view how);
  // The ranks that have announced that they fail since the last call, in that order.
  std::vector<FailingRank> take_failing() { return std::exchange(failing_, {}); }
  // Takes what ranks have said of lost peers since the last call.
  std::vector<LostPeers> take_lost_peers() {
    lost_count_ = 0;
    return std::exchange(lost_peers_, {});
  }
  // The timeout for poll() on fd(), in milliseconds; -1: none.
  int poll_timeout_ms() const;
  // Serves all clients as far as possible without blocking.
  void serve();

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection;

  StoreService(Fd listener, Fd epoll, std::string_view secret, StoreLimits limits);
  void accept_all();
  // Lets a client know that there is no descriptor for it. False: there is not even one for that.
  bool refuse_one();
  void watch_listener(bool watches);
  void add_connection(Fd socket);
  static void refuse(const Fd& socket, std::string_view why);
  // These return false when the connection is to be dropped.
  bool on_ready(Connection& connection, std::uint32_t events);
  bool read_from(Connection& connection);
  bool answer_all(Connection& connection);
  bool answer_some(Connection& connection, bool& more);
  bool answer(Connection& connection, const Frame& frame);
  bool authenticate(Connection& connection, const Frame& frame);
  bool admit(Connection& connection, bool knows_the_secret);
  bool flush(Connection& connection);

  bool may_answer(const Connection& connection) const;
  bool take_message(std::string_view key, std::string_view value);
  Status set(std::string_view key, std::string_view value);
  // Finds the value of a key that is set, or that stands for a version of the world that has begun.
  std::optional<std::string_view> find(std::string_view key) const;
  // Tells whether the key belongs to a version of the world that another one has followed.
  bool has_passed(std::string_view key) const;
  void note_failing(std::string_view key, std::string_view value);
  void note_lost_peers(std::string_view key, std::string_view value, LostPeers told);
  void keep_or_drop(Connection& connection, bool keep);
  void drop(int fd);
  void drop_oldest_unauthenticated();
  void drop_expired();
  void wake(const std::vector<int>& waiting, std::string_view value);

  Fd listener_;
  Fd spare_;  // given up for a moment to refuse a client where there is no other descriptor
  Fd epoll_;
  Clock::time_point accept_at_ = Clock::time_point::max();  // while the listener is not watched
  bool remote_;
  std::string text_;
  std::string secret_;
  StoreLimits limits_;
  std::map<std::string, std::string, std::less<>> values_;
  int version_ = 0;          // of the world
  std::optional<int> kept_;  // an earlier one whose keys are served, too
  std::vector<FailingRank> failing_;
  std::vector<LostPeers> lost_peers_;
  std::size_t lost_count_ = 0;  // numbers in them
  std::size_t bytes_ = 0;
  std::size_t unauthenticated_ = 0;
  std::map<std::string, std::vector<int>, std::less<>> waiters_;  // by key: connections with a pending get
  std::unordered_map<int, std::unique_ptr<Connection>> connections_;
  std::vector<int> resumed_;  // connections whose get was answered, with requests that may be waiting
};

}  // namespace xoe::bootstrap

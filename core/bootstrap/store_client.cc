#include "core/bootstrap/store_client.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>

#include "core/base/constant_time.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/text.h"
#include "core/bootstrap/sealed_stream.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store_protocol.h"

namespace xoe::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

// Requests in flight at a time: few enough to fit into the socket's buffer.
constexpr std::size_t kPipelined = 64;

tl::unexpected<Error> lost(int error_number) {
  return failure(Code::kPeerLost, "store: the launcher or rank that served it is gone: {}", errno_text(error_number));
}

Clock::time_point deadline_after(std::chrono::nanoseconds timeout) {
  const auto now = Clock::now();
  return timeout > Clock::time_point::max() - now ? Clock::time_point::max() : now + timeout;
}

// Waits for `events` on the socket; false when the deadline came first.
bool wait_for(int socket, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000)));
    if (ready > 0) return true;
    if (ready == 0 && left <= 0) return false;
  }
}

// A connection that carries requests and their replies in turn.
class Connection {
 public:
  explicit Connection(Fd socket) : socket_(std::move(socket)) {}

  // All that follows is encrypted, in both directions.
  Status encrypt(SessionKeys keys) {
    if (reader_.partial() != 0) return changed();
    sealer_.emplace(std::move(keys.send));
    opener_.emplace(std::move(keys.receive));
    return {};
  }

  Status send(std::string_view bytes, Clock::time_point deadline) {
    std::string sealed;
    if (sealer_) {
      sealer_->seal(bytes, sealed);
      bytes = sealed;
    }
    while (!bytes.empty()) {
      const auto count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(count));
      } else if (errno == EAGAIN) {
        if (!wait_for(socket_.get(), POLLOUT, deadline))
          return failure(Code::kTimeout, "store: the server does not read");
      } else if (errno != EINTR) {
        return lost(errno);
      }
    }
    return {};
  }

  // The value of the next reply, which must be of this kind, or the error in it.
  Result<std::string> receive(Clock::time_point deadline, FrameKind kind = FrameKind::kValue) {
    while (true) {
      XOE_ASSIGN(const auto body, next_body(reader_));
      if (body) return unpack(*body, kind);
      if (!wait_for(socket_.get(), POLLIN, deadline)) return failure(Code::kTimeout, "store: no answer");
      std::array<char, 8192> chunk;
      const auto count = ::recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (count > 0)
        XOE_TRY(read({chunk.data(), static_cast<std::size_t>(count)}));
      else if (count == 0)
        return lost(ECONNRESET);
      else if (errno != EAGAIN && errno != EINTR)
        return lost(errno);
    }
  }

 private:
  static tl::unexpected<Error> changed() {
    return failure(Code::kDataLoss, "store: what arrived is not what its server sent: something changed it on its way");
  }

  Status read(std::string_view bytes) {
    std::string plain;
    if (opener_ && !opener_->open(bytes, plain)) return changed();
    reader_.append(opener_ ? std::string_view(plain) : bytes);
    return {};
  }

  static Result<std::string> unpack(std::string_view body, FrameKind kind) {
    XOE_ASSIGN(const Frame frame, parse_body(body));
    if (frame.kind == FrameKind::kFail) return failure(frame.code, std::string(frame.value));
    if (frame.kind != kind) return failure(Code::kInternal, "store: unexpected kind of reply");
    return std::string(frame.value);
  }

  Fd socket_;
  std::optional<Sealer> sealer_;
  std::optional<Opener> opener_;
  FrameBuffer reader_;
};

// Each concurrent operation uses a connection of its own. One that failed is not used again, so a reply that arrives
// after its request's timeout is never mistaken for another's.
class SocketStore final : public Store {
 public:
  SocketStore(const SocketAddress& address, std::string secret, std::unique_ptr<StoreServer> server)
      : server_(std::move(server)), address_(address), secret_(std::move(secret)) {}

  Status probe(bool wait, std::chrono::nanoseconds timeout) {
    XOE_ASSIGN(auto connection, open(wait, deadline_after(timeout)));
    release(std::move(connection));
    return {};
  }

  Status set(std::string_view key, std::string_view value) override {
    XOE_TRY(check_key(key));
    if (value.size() > kMaxValue)
      return failure(Code::kInvalidArgument, "store: the value of {} has {} bytes; at most {}", key, value.size(),
                     kMaxValue);
    const auto deadline = deadline_after(kSetTimeout);
    XOE_ASSIGN(auto connection, take(deadline));
    std::string request;
    append_set(request, key, value);
    XOE_TRY(connection->send(request, deadline));
    XOE_TRY(connection->receive(deadline));
    release(std::move(connection));
    return {};
  }

  Status remove(std::span<const std::string> keys) override {
    for (const auto& key : keys) XOE_TRY(check_key(key));
    const auto deadline = deadline_after(kSetTimeout);
    XOE_ASSIGN(auto connection, take(deadline));
    for (std::size_t begin = 0; begin < keys.size(); begin += kPipelined) {
      const auto batch = keys.subspan(begin, std::min(kPipelined, keys.size() - begin));
      std::string requests;
      for (const auto& key : batch) append_remove(requests, key);
      XOE_TRY(connection->send(requests, deadline));
      for (std::size_t i = 0; i < batch.size(); ++i) XOE_TRY(connection->receive(deadline));
    }
    release(std::move(connection));
    return {};
  }

  Result<std::vector<std::string>> get_all(std::span<const std::string> keys,
                                           std::chrono::nanoseconds timeout) override {
    for (const auto& key : keys) XOE_TRY(check_key(key));
    const auto deadline = deadline_after(timeout);
    XOE_ASSIGN(auto connection, take(deadline));
    std::vector<std::string> values;
    values.reserve(keys.size());
    for (std::size_t begin = 0; begin < keys.size(); begin += kPipelined) {
      const auto batch = keys.subspan(begin, std::min(kPipelined, keys.size() - begin));
      std::string requests;
      for (const auto& key : batch) append_get(requests, key);
      XOE_TRY(connection->send(requests, deadline));
      for (const auto& key : batch) {
        auto value = connection->receive(deadline);
        if (!value && value.error().code() == Code::kTimeout)
          return failure(Code::kTimeout, "store: no rank set {} within {}", key, human_seconds(timeout));
        if (!value) return failure(value.error());
        values.push_back(std::move(*value));
      }
    }
    release(std::move(connection));
    return values;
  }

 private:
  static constexpr std::chrono::seconds kSetTimeout{30};

  static Status check_key(std::string_view key) {
    if (key.empty() || key.size() > kMaxKey)
      return failure(Code::kInvalidArgument, "store: a key must have 1 to {} bytes; this one has {}", kMaxKey,
                     key.size());
    return {};
  }

  Result<std::unique_ptr<Connection>> take(Clock::time_point deadline) {
    {
      const std::scoped_lock lock(mutex_);
      if (!idle_.empty()) {
        auto taken = std::move(idle_.back());
        idle_.pop_back();
        return taken;
      }
    }
    return open(/*wait=*/false, deadline);
  }

  void release(std::unique_ptr<Connection> connection) {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(connection));
  }

  // A server drops unauthenticated clients that are slow, or too many, which happens to ranks on a busy host: retry.
  // Once the server is gone, connecting fails.
  Result<std::unique_ptr<Connection>> open(bool wait, Clock::time_point deadline) {
    bool cut_off = false;
    for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
      XOE_ASSIGN(auto connection, connect(wait, deadline));
      const Status done = address_.remote() ? authenticate(*connection, deadline) : send_hello(*connection, deadline);
      if (done) return connection;
      cut_off = cut_off || done.error().code() == Code::kPeerLost;
      // An attempt that ran out of time says less than those before it.
      if (!cut_off || (done.error().code() != Code::kPeerLost && done.error().code() != Code::kTimeout))
        return failure(done.error());
      if (Clock::now() + pause >= deadline)
        return failure(Code::kPeerLost, "store: the server at {} closes the connection during authentication",
                       address_.text());
      std::this_thread::sleep_for(pause);
    }
  }

  Result<std::unique_ptr<Connection>> connect(bool wait, Clock::time_point deadline) {
    auto socket = connect_to(address_, wait, deadline);
    if (!socket)
      return failure(socket.error().code(), "store: {}{}", socket.error().message(), wait ? "; did rank 0 start?" : "");
    if (!address_.remote() && !peer_is_same_user(socket->get()))
      return failure(Code::kUnavailable, "store: {} is served by another user; nothing was sent to it",
                     address_.text());
    return std::make_unique<Connection>(std::move(*socket));
  }

  Status send_hello(Connection& connection, Clock::time_point deadline) const {
    std::string hello;
    append_hello(hello, secret_);
    Status sent = connection.send(hello, deadline);
    // A server that refuses may close before it has read the hello; its reason has arrived all the same.
    const auto answer = connection.receive(deadline);
    if (!answer) return failure(answer.error());
    return sent;
  }

  Status authenticate(Connection& connection, Clock::time_point deadline) const {
    const std::string nonce = make_nonce();
    std::string message;
    append_client_hello(message, nonce);
    XOE_TRY(connection.send(message, deadline));
    XOE_ASSIGN(const std::string challenge, connection.receive(deadline, FrameKind::kChallenge));
    const std::string theirs = challenge.substr(0, kNonceBytes);
    if (!equal_in_constant_time(challenge.substr(kNonceBytes), make_proof(secret_, End::kServer, nonce, theirs)))
      return failure(Code::kInvalidArgument, "store: the server at {} does not know this job's secret (XOE_SECRET)",
                     address_.text());
    message.clear();
    append_proof(message, make_proof(secret_, End::kClient, nonce, theirs));
    Status sent = connection.send(message, deadline);
    XOE_TRY(connection.encrypt(session_keys(secret_, End::kClient, nonce, theirs)));
    const auto answer = connection.receive(deadline);
    if (!answer) return failure(answer.error());
    return sent;
  }

  const std::unique_ptr<StoreServer> server_;  // may be null
  const SocketAddress address_;
  const std::string secret_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace

Result<std::unique_ptr<Store>> connect_store(const SocketAddress& address, std::string secret, bool wait,
                                             std::chrono::nanoseconds timeout, std::unique_ptr<StoreServer> server) {
  if (secret.size() > kMaxSecret)
    return failure(Code::kInvalidArgument, "store: the secret has {} bytes; at most {}", secret.size(), kMaxSecret);
  auto store = std::make_unique<SocketStore>(address, std::move(secret), std::move(server));
  XOE_TRY(store->probe(wait, timeout));
  return store;
}

}  // namespace xoe::bootstrap

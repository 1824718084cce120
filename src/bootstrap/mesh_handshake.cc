#include "bootstrap/mesh_handshake.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <span>
#include <system_error>
#include <thread>

#include "base/bytes.h"
#include "base/constant_time.h"
#include "base/error.h"
#include "bootstrap/proof.h"
#include "bootstrap/socket_address.h"

namespace xoe::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

// The client sends its hello: kMagic, its number among the members, the lane, a nonce. The server answers with a nonce
// and its proof, the client with its own proof, and the server with kAccepted. The proofs include the server's address,
// as it announced it: a member cannot be led to another mesh of the job.
constexpr std::string_view kMagic = "xoe-mesh-3\n";
constexpr std::size_t kClientHelloBytes = kMagic.size() + 2 * sizeof(std::uint32_t) + kNonceBytes;
constexpr char kAccepted = '+';
constexpr std::size_t kMaxUnauthenticated = 256;  // connections at a time
constexpr int kMaxAccepted = 64;                  // in one go: a flood must not keep the members from being served
constexpr auto kHandshakeTimeout = std::chrono::seconds(5);

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000));
}

// Handshake messages fit into any socket's buffer.
bool send_all(const Fd& socket, std::string_view bytes) {
  return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

Result<std::string> receive(const Fd& socket, std::size_t bytes, Clock::time_point deadline) {
  std::string all(bytes, '\0');
  for (std::size_t got = 0; got < bytes;) {
    pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, milliseconds_until(deadline)) == 0 && Clock::now() >= deadline)
      return failure(Code::kTimeout, "no answer");
    const auto count = ::recv(socket.get(), all.data() + got, bytes - got, MSG_DONTWAIT);
    if (count > 0)
      got += static_cast<std::size_t>(count);
    else if (count == 0 || (errno != EAGAIN && errno != EINTR))
      return failure(Code::kPeerLost, "the connection was closed");
  }
  return all;
}

// The client's end of one connection.
struct Client {
  int self = 0, lane = 0;
  const std::string& address;  // of the server
  std::string_view secret;
};

std::string client_hello(const Client& client) {
  ByteWriter hello;
  hello.raw(kMagic);
  hello.fixed(static_cast<std::uint32_t>(client.self));
  hello.fixed(static_cast<std::uint32_t>(client.lane));
  hello.raw(make_nonce());
  return std::move(hello).take();
}

Result<SessionKeys> authenticate(const Fd& socket, const Client& client, Clock::time_point deadline) {
  const std::string hello = client_hello(client);
  if (!send_all(socket, hello)) return failure(Code::kPeerLost, "the connection was closed");
  XOE_ASSIGN(const std::string answer, receive(socket, kNonceBytes + kProofBytes, deadline));
  const std::string theirs = answer.substr(0, kNonceBytes), said = hello + client.address;
  if (!equal_in_constant_time(answer.substr(kNonceBytes), make_proof(client.secret, End::kServer, said, theirs)))
    return failure(Code::kInvalidArgument, "the process that answers does not know this job's secret");
  if (!send_all(socket, make_proof(client.secret, End::kClient, said, theirs)))
    return failure(Code::kPeerLost, "the connection was closed");
  XOE_ASSIGN(const std::string accepted, receive(socket, 1, deadline));
  if (accepted[0] != kAccepted) return failure(Code::kInternal, "it sent a malformed answer");
  return session_keys(client.secret, End::kClient, said, theirs);
}

// On a busy host the server may drop a member that is slow to authenticate, so the client tries again.
Result<MemberConnection> connect_member(const Client& client, Clock::time_point deadline) {
  XOE_ASSIGN(const auto at, SocketAddress::parse(client.address));
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
    XOE_ASSIGN(Fd socket, connect_to(at, /*wait=*/true, deadline));
    auto keys = authenticate(socket, client, deadline);
    if (keys) return MemberConnection{.socket = std::move(socket), .keys = std::move(*keys)};
    if (keys.error().code() != Code::kPeerLost || Clock::now() + pause >= deadline) return failure(keys.error());
    std::this_thread::sleep_for(pause);
  }
}

// A connection that has not proven yet that it is a member's.
struct Unauthenticated {
  Fd socket;
  Clock::time_point deadline;
  std::string bytes = {};
  std::string expected = {};  // its proof
  std::size_t place = 0;      // among the members' connections
  SessionKeys keys = {};
};

// Accepts connections and authenticates them side by side, so that a foreign one cannot hold up the members.
class Acceptor {
 public:
  Acceptor(Fd listener, const ConnectOptions& options, std::vector<MemberConnection>& connections, int self)
      : listener_(std::move(listener)),
        stop_(::eventfd(0, EFD_CLOEXEC)),
        address_(SocketAddress::of(listener_.get()).text()),
        options_(options),
        connections_(connections),
        self_(self),
        size_(static_cast<int>(connections.size()) / options.lanes) {}

  const std::string& address() const noexcept { return address_; }
  // How many connections did not prove to be a member's.
  std::size_t unauthenticated() const noexcept { return dropped_ - admitted_ + unauthenticated_.size(); }

  // Until all members after this one have connected.
  Status run(Clock::time_point deadline) {
    while (first_missing() >= 0) {
      if (Clock::now() >= deadline)
        return failure(Code::kTimeout, "{} of {} did not connect", options_.name(first_missing()), size_);
      std::vector<pollfd> entries{{.fd = stop_.get(), .events = POLLIN, .revents = 0},
                                  {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
      for (const Unauthenticated& peer : unauthenticated_)
        entries.push_back({.fd = peer.socket.get(), .events = POLLIN, .revents = 0});
      ::poll(entries.data(), entries.size(), std::min(milliseconds_until(deadline), 200));
      if (entries[0].revents != 0) return failure(Code::kUnavailable, "given up");
      serve(std::span(entries).subspan(2));
      for (int i = 0; entries[1].revents != 0 && i < kMaxAccepted && accept(); ++i) {
      }
    }
    return {};
  }

  // Any thread: run() returns soon.
  void stop() noexcept { ::eventfd_write(stop_.get(), 1); }

 private:
  int first_missing() const {
    for (int member = self_ + 1; member < size_; ++member)
      for (int lane = 0; lane < options_.lanes; ++lane)
        if (!connections_.begin()[lane * size_ + member].socket.valid()) return member;
    return -1;
  }

  void serve(std::span<const pollfd> entries) {
    for (std::size_t i = 0; i < unauthenticated_.size(); ++i)
      if (entries[i].revents != 0 && !read_from(unauthenticated_[i])) unauthenticated_[i].deadline = {};
    const auto now = Clock::now();
    dropped_ += std::erase_if(unauthenticated_, [now](const Unauthenticated& peer) { return peer.deadline <= now; });
  }

  // False: no connection is waiting.
  bool accept() {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return errno == ECONNABORTED;
    set_tcp_options(socket.get());
    if (unauthenticated_.size() >= kMaxUnauthenticated) drop_one();
    unauthenticated_.push_back({.socket = std::move(socket), .deadline = Clock::now() + kHandshakeTimeout});
    return true;
  }

  // The oldest of those that have not even said hello, if there is one.
  void drop_one() {
    const auto silent = std::ranges::find_if(unauthenticated_, &std::string::empty, &Unauthenticated::expected);
    unauthenticated_.erase(silent == unauthenticated_.end() ? unauthenticated_.begin() : silent);
    ++dropped_;
  }

  // False: the connection is to be dropped, or has moved into `connections_` as a member's.
  bool read_from(Unauthenticated& peer) {
    char bytes[256];
    const std::size_t wanted = (peer.expected.empty() ? kClientHelloBytes : kProofBytes) - peer.bytes.size();
    const auto count = ::recv(peer.socket.get(), bytes, wanted, MSG_DONTWAIT);
    if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
    peer.bytes.append(bytes, static_cast<std::size_t>(count));
    if (static_cast<std::size_t>(count) < wanted) return true;
    return peer.expected.empty() ? challenge(peer) : admit(peer);
  }

  bool challenge(Unauthenticated& peer) {
    const auto member = load_little<std::uint32_t>(peer.bytes.data() + kMagic.size());
    const auto lane = load_little<std::uint32_t>(peer.bytes.data() + kMagic.size() + sizeof member);
    if (!peer.bytes.starts_with(kMagic) || member <= static_cast<std::uint32_t>(self_) ||
        member >= static_cast<std::uint32_t>(size_) || lane >= static_cast<std::uint32_t>(options_.lanes))
      return false;
    peer.place = std::size_t{lane} * static_cast<std::size_t>(size_) + member;
    const std::string nonce = make_nonce(), said = peer.bytes + address_;
    peer.expected = make_proof(options_.secret, End::kClient, said, nonce);
    peer.keys = session_keys(options_.secret, End::kServer, said, nonce);
    peer.bytes.clear();
    return send_all(peer.socket, nonce + make_proof(options_.secret, End::kServer, said, nonce));
  }

  bool admit(Unauthenticated& peer) {
    MemberConnection& member = connections_[peer.place];
    if (!equal_in_constant_time(peer.bytes, peer.expected) || member.socket.valid() ||
        !send_all(peer.socket, {&kAccepted, 1}))
      return false;
    member = {.socket = std::move(peer.socket), .keys = std::move(peer.keys)};
    ++admitted_;
    return false;
  }

  Fd listener_, stop_;
  const std::string address_;
  const ConnectOptions& options_;
  std::vector<MemberConnection>& connections_;
  int self_, size_;
  std::vector<Unauthenticated> unauthenticated_;
  std::size_t dropped_ = 0, admitted_ = 0;  // a connection that was admitted leaves the list like one that was dropped
};

// Runs an acceptor in a thread of its own: from before the members know this one's address, so that unauthenticated
// clients cannot fill the queue of the listener.
class Accepting {
 public:
  explicit Accepting(Acceptor& acceptor) : acceptor_(acceptor) {}
  Accepting(const Accepting&) = delete;
  ~Accepting() { acceptor_.stop(); }

  Status start(Clock::time_point deadline) {
    try {
      thread_ = std::jthread([this, deadline] { outcome_ = acceptor_.run(deadline); });
      return {};
    } catch (const std::system_error&) {
      return failure(Code::kResourceExhausted, "cannot start a thread (limit of processes?)");
    }
  }
  Status wait() {
    thread_.join();
    return outcome_;
  }

 private:
  Acceptor& acceptor_;
  Status outcome_;
  std::jthread thread_;
};

// To all members before this one.
Status connect_to_members(int self, int size, const std::vector<std::string>& addresses, const ConnectOptions& options,
                          std::vector<MemberConnection>& connections, Clock::time_point deadline) {
  for (int lane = 0; lane < options.lanes; ++lane) {
    for (int member = 0; member < self; ++member) {
      const std::string& address = addresses[static_cast<std::size_t>(member)];
      auto made = connect_member({.self = self, .lane = lane, .address = address, .secret = options.secret}, deadline);
      if (!made)
        return failure(made.error().code(), "cannot connect to {} at {}: {}", options.name(member), address,
                       made.error().message());
      connections.begin()[lane * size + member] = std::move(*made);
    }
  }
  return {};
}

}  // namespace

Result<std::vector<MemberConnection>> connect_members(int self, int size, const Exchange& exchange,
                                                      const ConnectOptions& given, Clock::time_point deadline) {
  ConnectOptions options = given;
  if (!options.name) options.name = [](int member) { return fmt::format("host {}", member); };
  if (options.secret.empty())
    return failure(Code::kInvalidArgument, "connections between hosts require a secret (XOE_SECRET)");
  XOE_ASSIGN(const auto any, SocketAddress::tcp(options.address, 0));
  XOE_ASSIGN(Fd listener, listen_at(any));
  std::vector<MemberConnection> connections(static_cast<std::size_t>(size * options.lanes));
  Acceptor acceptor(std::move(listener), options, connections, self);
  Accepting accepting(acceptor);
  XOE_TRY(accepting.start(deadline));
  XOE_ASSIGN(const auto addresses, exchange(acceptor.address()));
  if (addresses.size() != static_cast<std::size_t>(size))
    return failure(Code::kInternal, "{} addresses of {} members", addresses.size(), size);
  XOE_TRY(connect_to_members(self, size, addresses, options, connections, deadline));
  XOE_TRY(accepting.wait());
  if (acceptor.unauthenticated() != 0 && options.warn)
    options.warn(
        fmt::format("{}: {} unauthenticated connections were dropped: other programs connect to this job's ports",
                    acceptor.address(), acceptor.unauthenticated()));
  return connections;
}

}  // namespace xoe::bootstrap

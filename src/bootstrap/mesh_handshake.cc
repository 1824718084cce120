#include "bootstrap/mesh_handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "base/bytes.h"
#include "base/constant_time.h"
#include "base/error.h"
#include "bootstrap/proof.h"
#include "bootstrap/socket_address.h"

namespace xoe::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

// The client sends its hello: kMagic, its number among the members, a nonce. The server answers with a nonce and its
// proof, the client with its own proof, and the server with kAccepted.
constexpr std::string_view kMagic = "xoe-mesh-1\n";
constexpr std::size_t kClientHelloBytes = kMagic.size() + sizeof(std::uint32_t) + kNonceBytes;
constexpr char kAccepted = '+';
constexpr std::size_t kMaxUnauthenticated = 256;  // connections at a time
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

std::string client_hello(int self, std::string_view nonce) {
  ByteWriter hello;
  hello.raw(kMagic);
  hello.fixed(static_cast<std::uint32_t>(self));
  hello.raw(nonce);
  return std::move(hello).take();
}

Status authenticate(const Fd& socket, int self, std::string_view secret, Clock::time_point deadline) {
  const std::string hello = client_hello(self, make_nonce());
  if (!send_all(socket, hello)) return failure(Code::kPeerLost, "the connection was closed");
  XOE_ASSIGN(const std::string answer, receive(socket, kNonceBytes + kProofBytes, deadline));
  const std::string theirs = answer.substr(0, kNonceBytes);
  if (!equal_in_constant_time(answer.substr(kNonceBytes), make_proof(secret, End::kServer, hello, theirs)))
    return failure(Code::kInvalidArgument, "the process that answers does not know this job's secret");
  if (!send_all(socket, make_proof(secret, End::kClient, hello, theirs)))
    return failure(Code::kPeerLost, "the connection was closed");
  XOE_ASSIGN(const std::string accepted, receive(socket, 1, deadline));
  if (accepted[0] != kAccepted) return failure(Code::kInternal, "it sent a malformed answer");
  return {};
}

// On a busy host the server may drop a member that is slow to authenticate, so the client tries again.
Result<Fd> connect_member(int self, const std::string& address, std::string_view secret, Clock::time_point deadline) {
  XOE_ASSIGN(const auto at, SocketAddress::parse(address));
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
    XOE_ASSIGN(Fd socket, connect_to(at, /*wait=*/true, deadline));
    const Status done = authenticate(socket, self, secret, deadline);
    if (done) return socket;
    if (done.error().code() != Code::kPeerLost || Clock::now() + pause >= deadline) return failure(done.error());
    std::this_thread::sleep_for(pause);
  }
}

// A connection that has not proven yet that it is a member's.
struct Unauthenticated {
  Fd socket;
  Clock::time_point deadline;
  std::string bytes = {};
  std::string expected = {};  // its proof
  int member = -1;
};

// Accepts connections and authenticates them side by side, so that a foreign one cannot hold up the members.
class Acceptor {
 public:
  Acceptor(Fd listener, std::string_view secret, std::vector<Fd>& sockets, int self)
      : listener_(std::move(listener)), secret_(secret), sockets_(sockets), self_(self) {}

  Status await_all(Clock::time_point deadline) {
    while (first_missing() >= 0) {
      if (Clock::now() >= deadline)
        return failure(Code::kTimeout, "host {} of {} did not connect", first_missing(), sockets_.size());
      std::vector<pollfd> entries{{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
      for (const Unauthenticated& peer : unauthenticated_)
        entries.push_back({.fd = peer.socket.get(), .events = POLLIN, .revents = 0});
      ::poll(entries.data(), entries.size(), std::min(milliseconds_until(deadline), 200));
      for (std::size_t i = 0; i < unauthenticated_.size(); ++i)
        if (entries[i + 1].revents != 0 && !read_from(unauthenticated_[i])) unauthenticated_[i].deadline = {};
      std::erase_if(unauthenticated_, [](const Unauthenticated& peer) { return peer.deadline <= Clock::now(); });
      if (entries[0].revents != 0) accept();
    }
    return {};
  }

 private:
  int first_missing() const {
    for (std::size_t member = static_cast<std::size_t>(self_) + 1; member < sockets_.size(); ++member)
      if (!sockets_[member].valid()) return static_cast<int>(member);
    return -1;
  }

  void accept() {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    set_tcp_options(socket.get());
    if (unauthenticated_.size() >= kMaxUnauthenticated) unauthenticated_.erase(unauthenticated_.begin());
    unauthenticated_.push_back({.socket = std::move(socket), .deadline = Clock::now() + kHandshakeTimeout});
  }

  // False: the connection is to be dropped, or has moved into `sockets_` as a member's.
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
    const auto number = load_little<std::uint32_t>(peer.bytes.data() + kMagic.size());
    if (!peer.bytes.starts_with(kMagic) || number <= static_cast<std::uint32_t>(self_) || number >= sockets_.size())
      return false;
    peer.member = static_cast<int>(number);
    const std::string nonce = make_nonce();
    peer.expected = make_proof(secret_, End::kClient, peer.bytes, nonce);
    const std::string answer = nonce + make_proof(secret_, End::kServer, peer.bytes, nonce);
    peer.bytes.clear();
    return send_all(peer.socket, answer);
  }

  bool admit(Unauthenticated& peer) {
    auto& socket = sockets_[static_cast<std::size_t>(peer.member)];
    if (equal_in_constant_time(peer.bytes, peer.expected) && !socket.valid() && send_all(peer.socket, {&kAccepted, 1}))
      socket = std::move(peer.socket);
    return false;
  }

  Fd listener_;
  std::string secret_;
  std::vector<Fd>& sockets_;
  int self_;
  std::vector<Unauthenticated> unauthenticated_;
};

}  // namespace

Result<std::vector<Fd>> connect_members(int self, int size, const HostMesh::Exchange& exchange,
                                        const MeshOptions& options, Clock::time_point deadline) {
  XOE_ASSIGN(const auto any, SocketAddress::tcp(options.address, 0));
  XOE_ASSIGN(Fd listener, listen_at(any));
  XOE_ASSIGN(const auto addresses, exchange(SocketAddress::of(listener.get()).text()));
  if (addresses.size() != static_cast<std::size_t>(size))
    return failure(Code::kInternal, "{} addresses of {} hosts", addresses.size(), size);
  std::vector<Fd> sockets(static_cast<std::size_t>(size));
  for (int member = 0; member < self; ++member) {
    const std::string& address = addresses[static_cast<std::size_t>(member)];
    auto socket = connect_member(self, address, options.secret, deadline);
    if (!socket)
      return failure(socket.error().code(), "cannot connect to host {} at {}: {}", member, address,
                     socket.error().message());
    sockets[static_cast<std::size_t>(member)] = std::move(*socket);
  }
  XOE_TRY(Acceptor(std::move(listener), options.secret, sockets, self).await_all(deadline));
  return sockets;
}

}  // namespace xoe::bootstrap

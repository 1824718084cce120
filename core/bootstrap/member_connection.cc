#include "core/bootstrap/member_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/constant_time.h"
#include "core/base/error.h"
#include "core/base/no_room.h"
#include "core/bootstrap/proof.h"
#include "core/bootstrap/socket_address.h"

namespace xoe::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

// The client sends its hello: kMagic, its number among the members, the lane, a nonce. The server answers with a nonce
// and its proof, the client with its own proof, and the server with kAccepted. The proofs include the server's address,
// as it announced it, or the name of what both join: a member cannot be led to another mesh of the job.
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

Result<std::string> receive(const Fd& socket, std::size_t bytes, Clock::time_point deadline, int stop) {
  std::string all(bytes, '\0');
  for (std::size_t got = 0; got < bytes;) {
    std::array entries{pollfd{.fd = socket.get(), .events = POLLIN, .revents = 0},
                       pollfd{.fd = stop, .events = POLLIN, .revents = 0}};
    if (::poll(entries.data(), entries.size(), milliseconds_until(deadline)) == 0 && Clock::now() >= deadline)
      return failure(Code::kTimeout, "no answer");
    if (entries[1].revents != 0) return failure(Code::kUnavailable, "no answer so far: given up");
    const auto count = ::recv(socket.get(), all.data() + got, bytes - got, MSG_DONTWAIT);
    if (count > 0)
      got += static_cast<std::size_t>(count);
    else if (count == 0 || (errno != EAGAIN && errno != EINTR))
      return failure(Code::kPeerLost, "the connection was closed");
  }
  return all;
}

std::string client_hello(const MemberClient& client) {
  ByteWriter hello;
  hello.raw(kMagic);
  hello.fixed(static_cast<std::uint32_t>(client.self));
  hello.fixed(static_cast<std::uint32_t>(client.lane));
  hello.raw(make_nonce());
  return std::move(hello).take();
}

Result<SessionKeys> authenticate(const Fd& socket, const MemberClient& client, Clock::time_point deadline) {
  std::string hello = client_hello(client);
  if (!send_all(socket, hello)) return failure(Code::kPeerLost, "the connection was closed");
  XOE_ASSIGN(const std::string answer, receive(socket, kNonceBytes + kProofBytes, deadline, client.stop));
  const std::string theirs = answer.substr(0, kNonceBytes);
  const std::string said = hello.append(client.name.empty() ? client.address : client.name);
  if (!equal_in_constant_time(answer.substr(kNonceBytes), make_proof(client.secret, End::kServer, said, theirs)))
    return failure(Code::kInvalidArgument, "the process that answers does not know this job's secret");
  if (!send_all(socket, make_proof(client.secret, End::kClient, said, theirs)))
    return failure(Code::kPeerLost, "the connection was closed");
  XOE_ASSIGN(const std::string accepted, receive(socket, 1, deadline, client.stop));
  if (accepted[0] != kAccepted) return failure(Code::kInternal, "it sent a malformed answer");
  return session_keys(client.secret, End::kClient, said, theirs);
}

}  // namespace

Result<MemberConnection> connect_member(const MemberClient& client, Clock::time_point deadline) {
  XOE_ASSIGN(const auto at, SocketAddress::parse(client.address));
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
    XOE_ASSIGN(Fd socket, connect_to(at, client.waits, deadline, client.stop));
    auto keys = authenticate(socket, client, deadline);
    if (keys) return MemberConnection{.socket = std::move(socket), .keys = std::move(*keys)};
    if (keys.error().code() != Code::kPeerLost || Clock::now() + pause >= deadline) return failure(keys.error());
    if (is_stopped_within(client.stop, pause)) return failure(Code::kUnavailable, "given up");
  }
}

MemberAcceptor::MemberAcceptor(Fd listener, MemberPolicy policy)
    : listener_(std::move(listener)), address_(SocketAddress::of(listener_.get()).text()), policy_(std::move(policy)) {}

void MemberAcceptor::add_entries(std::vector<pollfd>& entries) const {
  const bool paused = paused_until_ != Clock::time_point{};
  entries.push_back({.fd = paused ? -1 : listener_.get(), .events = POLLIN, .revents = 0});
  for (const Unauthenticated& peer : unauthenticated_)
    entries.push_back({.fd = peer.socket.get(), .events = POLLIN, .revents = 0});
}

void MemberAcceptor::serve(std::span<const pollfd> entries) {
  for (std::size_t i = 0; i < unauthenticated_.size(); ++i)
    if (entries[i + 1].revents != 0 && !read_from(unauthenticated_[i])) unauthenticated_[i].deadline = {};
  const auto now = Clock::now();
  dropped_ += std::erase_if(unauthenticated_, [now](const Unauthenticated& peer) { return peer.deadline <= now; });
  const bool resumes = paused_until_ != Clock::time_point{} && paused_until_ <= now;
  if (resumes) paused_until_ = {};
  for (int i = 0; (resumes || entries[0].revents != 0) && i < kMaxAccepted && accept(); ++i) {
  }
}

// False: no connection is waiting, or there is no room for it.
bool MemberAcceptor::accept() {
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    const int error = errno;
    if (is_no_room(error)) paused_until_ = Clock::now() + kNoRoomPause;
    return error == ECONNABORTED;
  }
  set_tcp_options(socket.get());
  if (unauthenticated_.size() >= kMaxUnauthenticated) drop_one();
  unauthenticated_.push_back({.socket = std::move(socket), .deadline = Clock::now() + kHandshakeTimeout});
  return true;
}

// The oldest of those that have not even said hello, if there is one.
void MemberAcceptor::drop_one() {
  const auto silent = std::ranges::find_if(unauthenticated_, &std::string::empty, &Unauthenticated::expected);
  unauthenticated_.erase(silent == unauthenticated_.end() ? unauthenticated_.begin() : silent);
  ++dropped_;
}

// False: the connection is to be dropped, or has been admitted.
bool MemberAcceptor::read_from(Unauthenticated& peer) {
  char bytes[256];
  const std::size_t wanted = (peer.expected.empty() ? kClientHelloBytes : kProofBytes) - peer.bytes.size();
  const auto count = ::recv(peer.socket.get(), bytes, wanted, MSG_DONTWAIT);
  if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
  peer.bytes.append(bytes, static_cast<std::size_t>(count));
  if (static_cast<std::size_t>(count) < wanted) return true;
  return peer.expected.empty() ? challenge(peer) : admit(peer);
}

bool MemberAcceptor::challenge(Unauthenticated& peer) const {
  peer.member = load_little<std::uint32_t>(peer.bytes.data() + kMagic.size());
  peer.lane = load_little<std::uint32_t>(peer.bytes.data() + kMagic.size() + sizeof peer.member);
  if (!peer.bytes.starts_with(kMagic) || !policy_.expects(peer.member, peer.lane)) return false;
  const std::string nonce = make_nonce(), said = peer.bytes + (policy_.name.empty() ? address_ : policy_.name);
  peer.expected = make_proof(policy_.secret, End::kClient, said, nonce);
  peer.keys = session_keys(policy_.secret, End::kServer, said, nonce);
  peer.bytes.clear();
  return send_all(peer.socket, nonce + make_proof(policy_.secret, End::kServer, said, nonce));
}

bool MemberAcceptor::admit(Unauthenticated& peer) {
  if (!equal_in_constant_time(peer.bytes, peer.expected) || !policy_.expects(peer.member, peer.lane) ||
      !send_all(peer.socket, {&kAccepted, 1}))
    return false;
  policy_.admit(static_cast<int>(peer.member), static_cast<int>(peer.lane),
                {.socket = std::move(peer.socket), .keys = std::move(peer.keys)});
  ++admitted_;
  return false;
}

}  // namespace xoe::bootstrap

#include "bootstrap/mesh_greeting.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "bootstrap/proof.h"
#include "bootstrap/socket_address.h"

namespace xoe::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

// The caller: kMagic, its number, a nonce. The called: a nonce, a proof. The caller: a proof. The called: kWelcome.
constexpr std::string_view kMagic = "xoe-mesh-1\n";
constexpr std::size_t kKnock = kMagic.size() + sizeof(std::uint32_t) + kNonceBytes;
constexpr char kWelcome = '+';
// Callers that have not proven themselves.
constexpr std::size_t kMostStrangers = 256;
constexpr auto kStrangersTime = std::chrono::seconds(5);

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000));
}

// The greeting's bytes are few enough for any socket's buffer.
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

std::string knock_of(int self, std::string_view nonce) {
  const auto number = static_cast<std::uint32_t>(self);
  std::string knock(kMagic);
  knock.append(reinterpret_cast<const char*>(&number), sizeof number).append(nonce);
  return knock;
}

Status greet(const Fd& socket, int self, std::string_view secret, Clock::time_point deadline) {
  const std::string knock = knock_of(self, make_nonce());
  if (!send_all(socket, knock)) return failure(Code::kPeerLost, "the connection was closed");
  XOE_ASSIGN(const std::string answer, receive(socket, kNonceBytes + kProofBytes, deadline));
  const std::string theirs = answer.substr(0, kNonceBytes);
  if (!same_proof(answer.substr(kNonceBytes), make_proof(secret, End::kServer, knock, theirs)))
    return failure(Code::kInvalidArgument, "who answers does not know this job's secret");
  if (!send_all(socket, make_proof(secret, End::kClient, knock, theirs)))
    return failure(Code::kPeerLost, "the connection was closed");
  XOE_ASSIGN(const std::string welcome, receive(socket, 1, deadline));
  if (welcome[0] != kWelcome) return failure(Code::kInternal, "an answer that is none");
  return {};
}

// On a busy host a member may be so slow that it is taken for a stranger who has nothing to say: it calls again.
Result<Fd> call(int self, const std::string& address, std::string_view secret, Clock::time_point deadline) {
  XOE_ASSIGN(const auto at, SocketAddress::parse(address));
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
    XOE_ASSIGN(Fd socket, connect_to(at, /*wait=*/true, deadline));
    const Status greeted = greet(socket, self, secret, deadline);
    if (greeted) return socket;
    if (greeted.error().code() != Code::kPeerLost || Clock::now() + pause >= deadline) return failure(greeted.error());
    std::this_thread::sleep_for(pause);
  }
}

// Somebody who called.
struct Stranger {
  Fd socket;
  Clock::time_point deadline;
  std::string bytes = {};
  std::string expected = {};  // its proof
  int member = -1;
};

// Takes calls from strangers side by side, so that none of them holds up the members.
class Reception {
 public:
  Reception(Fd listener, std::string_view secret, std::vector<Fd>& sockets, int self)
      : listener_(std::move(listener)), secret_(secret), sockets_(sockets), self_(self) {}

  Status await_all(Clock::time_point deadline) {
    while (missing() >= 0) {
      if (Clock::now() >= deadline)
        return failure(Code::kTimeout, "host {} of {} did not call", missing(), sockets_.size());
      std::vector<pollfd> entries{{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
      for (const Stranger& stranger : strangers_)
        entries.push_back({.fd = stranger.socket.get(), .events = POLLIN, .revents = 0});
      ::poll(entries.data(), entries.size(), std::min(milliseconds_until(deadline), 200));
      for (std::size_t i = 0; i < strangers_.size(); ++i)
        if (entries[i + 1].revents != 0 && !hear(strangers_[i])) strangers_[i].deadline = {};
      std::erase_if(strangers_, [](const Stranger& stranger) { return stranger.deadline <= Clock::now(); });
      if (entries[0].revents != 0) accept();
    }
    return {};
  }

 private:
  int missing() const {
    for (std::size_t member = static_cast<std::size_t>(self_) + 1; member < sockets_.size(); ++member)
      if (!sockets_[member].valid()) return static_cast<int>(member);
    return -1;
  }

  void accept() {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    set_tcp_options(socket.get());
    if (strangers_.size() >= kMostStrangers) strangers_.erase(strangers_.begin());
    strangers_.push_back({.socket = std::move(socket), .deadline = Clock::now() + kStrangersTime});
  }

  // False: to be dropped; a member's socket has moved to its place by then.
  bool hear(Stranger& stranger) {
    char bytes[256];
    const std::size_t wanted = (stranger.expected.empty() ? kKnock : kProofBytes) - stranger.bytes.size();
    const auto count = ::recv(stranger.socket.get(), bytes, wanted, MSG_DONTWAIT);
    if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
    stranger.bytes.append(bytes, static_cast<std::size_t>(count));
    if (static_cast<std::size_t>(count) < wanted) return true;
    return stranger.expected.empty() ? challenge(stranger) : admit(stranger);
  }

  bool challenge(Stranger& stranger) {
    std::uint32_t number = 0;
    std::memcpy(&number, stranger.bytes.data() + kMagic.size(), sizeof number);
    if (!stranger.bytes.starts_with(kMagic) || number <= static_cast<std::uint32_t>(self_) || number >= sockets_.size())
      return false;
    stranger.member = static_cast<int>(number);
    const std::string nonce = make_nonce();
    stranger.expected = make_proof(secret_, End::kClient, stranger.bytes, nonce);
    const std::string answer = nonce + make_proof(secret_, End::kServer, stranger.bytes, nonce);
    stranger.bytes.clear();
    return send_all(stranger.socket, answer);
  }

  bool admit(Stranger& stranger) {
    auto& place = sockets_[static_cast<std::size_t>(stranger.member)];
    if (same_proof(stranger.bytes, stranger.expected) && !place.valid() && send_all(stranger.socket, {&kWelcome, 1}))
      place = std::move(stranger.socket);
    return false;
  }

  Fd listener_;
  std::string secret_;
  std::vector<Fd>& sockets_;
  int self_;
  std::vector<Stranger> strangers_;
};

}  // namespace

Result<std::vector<Fd>> greet_members(int self, int size, const HostMesh::Exchange& exchange,
                                      const MeshOptions& options, Clock::time_point deadline) {
  XOE_ASSIGN(const auto any, SocketAddress::parse(options.address.find(':') == std::string::npos
                                                      ? fmt::format("tcp:{}:0", options.address)
                                                      : fmt::format("tcp:[{}]:0", options.address)));
  XOE_ASSIGN(Fd listener, listen_at(any));
  XOE_ASSIGN(const auto addresses, exchange(SocketAddress::of(listener.get()).text()));
  if (addresses.size() != static_cast<std::size_t>(size))
    return failure(Code::kInternal, "{} addresses of {} hosts", addresses.size(), size);
  std::vector<Fd> sockets(static_cast<std::size_t>(size));
  for (int member = 0; member < self; ++member) {
    const std::string& address = addresses[static_cast<std::size_t>(member)];
    auto socket = call(self, address, options.secret, deadline);
    if (!socket)
      return failure(socket.error().code(), "cannot connect to host {} at {}: {}", member, address,
                     socket.error().message());
    sockets[static_cast<std::size_t>(member)] = std::move(*socket);
  }
  XOE_TRY(Reception(std::move(listener), options.secret, sockets, self).await_all(deadline));
  return sockets;
}

}  // namespace xoe::bootstrap

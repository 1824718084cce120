#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "core/base/constant_time.h"
#include "core/base/error.h"
#include "launch/doctor/cluster/probe.h"

namespace xoe::doctor {
namespace {

constexpr std::size_t kMaxPeers = 16;
constexpr auto kHelloTimeout = std::chrono::seconds(1);
constexpr auto kPeerTimeout = std::chrono::seconds(3);

Result<Fd> listening_socket() {
  Fd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int no = 0;
  sockaddr_in6 any6 = {};
  any6.sin6_family = AF_INET6;
  any6.sin6_addr = in6addr_any;
  if (fd.valid() && ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0 &&
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any6), sizeof any6) == 0)
    return fd;
  // Without IPv6.
  fd = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0)
    return failure(Code::kUnavailable, "cannot open a TCP port: {}", errno_text(errno));
  return fd;
}

}  // namespace

Result<ProbeServer> ProbeServer::listen(std::string token) {
  if (token.size() != kTokenBytes) return failure(Code::kInvalidArgument, "a token has {} characters", kTokenBytes);
  XOE_ASSIGN(Fd fd, listening_socket());
  sockaddr_in6 address = {};
  socklen_t size = sizeof address;
  if (::listen(fd.get(), kMaxPeers) != 0 || ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return failure(Code::kUnavailable, "cannot listen on a TCP port: {}", errno_text(errno));
  // The port lies at the same place in both families.
  return ProbeServer(std::move(fd), ntohs(address.sin6_port), std::move(token));
}

void ProbeServer::entries(std::vector<pollfd>& all) const {
  if (peers_.size() < kMaxPeers) all.push_back({listener_.get(), POLLIN, 0});
  for (const Peer& peer : peers_) all.push_back({peer.fd.get(), POLLIN, 0});
}

void ProbeServer::serve() {
  accept_peers();
  for (std::size_t i = 0; i < peers_.size();) {
    if (serve_peer(peers_[i])) {
      ++i;
      continue;
    }
    keep(peers_[i]);
    peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void ProbeServer::keep(const Peer& peer) {
  if (peer.bytes > 0 && received_.size() < kMaxProbed)
    received_.push_back({.address = static_cast<unsigned char>(peer.hello[kAsked - 1]),
                         .bytes = peer.bytes,
                         .seconds = std::chrono::duration<double>(peer.last - peer.first).count()});
}

std::vector<Received> ProbeServer::finish() {
  serve();
  for (const Peer& peer : peers_) keep(peer);
  peers_.clear();
  listener_ = Fd();
  return std::move(received_);
}

void ProbeServer::accept_peers() {
  while (peers_.size() < kMaxPeers) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    const int yes = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    std::string nonce = bootstrap::make_nonce();
    if (::send(fd.get(), nonce.data(), nonce.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(nonce.size())) continue;
    peers_.push_back({.fd = std::move(fd),
                      .nonce = std::move(nonce),
                      .hello = {},
                      .deadline = Clock::now() + kHelloTimeout,
                      .first = {},
                      .last = {}});
  }
}

bool ProbeServer::read_hello(Peer& peer) {
  char part[kHelloBytes];
  const auto count = ::recv(peer.fd.get(), part, kHelloBytes - peer.hello.size(), 0);
  if (count <= 0) return count < 0 && errno == EAGAIN;
  peer.hello.append(part, static_cast<std::size_t>(count));
  if (peer.hello.size() < kHelloBytes) return true;
  const std::string_view hello = peer.hello, asked = hello.substr(0, kAsked);
  peer.deadline = Clock::now() + kPeerTimeout;
  return (asked.starts_with("XOE2L") || asked.starts_with("XOE2B")) &&
         equal_in_constant_time(hello.substr(kAsked),
                                bootstrap::make_proof(token_, bootstrap::End::kClient, asked, peer.nonce));
}

bool ProbeServer::serve_peer(Peer& peer) {
  if (Clock::now() >= peer.deadline) return false;
  if (peer.hello.size() < kHelloBytes && !read_hello(peer)) return false;
  if (peer.hello.size() < kHelloBytes) return true;
  const bool echoes = peer.hello[kAsked - 2] == 'L';
  while (true) {
    const auto count = ::recv(peer.fd.get(), buffer_.data(), echoes ? 64 : buffer_.size(), 0);
    if (count < 0 && errno == EAGAIN) return true;
    if (count <= 0) return false;
    if (echoes) {
      // A client that does not read its echoes is cut off.
      if (::send(peer.fd.get(), buffer_.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) != count) return false;
      return true;
    }
    peer.last = Clock::now();
    if (peer.bytes == 0) peer.first = peer.last;
    peer.bytes += static_cast<std::uint64_t>(count);
    if (static_cast<std::size_t>(count) < buffer_.size()) return true;
    if (peer.last >= peer.deadline) return false;
  }
}

}  // namespace xoe::doctor

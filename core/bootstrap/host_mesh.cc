#include "core/bootstrap/host_mesh.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/bootstrap/failing_rank.h"

namespace xoe::bootstrap {
namespace {

// A message is one frame (base/bytes.h) or several, each with a byte before its part of the message. These lengths are
// not of messages.
constexpr char kLast = 0, kMore = 1;
constexpr std::uint32_t kAlive = 0;
constexpr std::uint32_t kGoodbye = 0xffffffff;

}  // namespace

HostMesh::HostMesh(const MeshOptions& options, MeshEvents events)
    : silence_(options.silence), events_(std::move(events)) {}

Result<std::unique_ptr<HostMesh>> HostMesh::connect(int self, int size, const Exchange& exchange,
                                                    const MeshOptions& options, Clock::time_point deadline,
                                                    MeshEvents events) {
  XOE_ASSIGN(auto connections, connect_members(self, size, exchange, options.connection, deadline));
  std::unique_ptr<HostMesh> mesh(new HostMesh(options, std::move(events)));
  mesh->wakeup_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!mesh->wakeup_.valid()) return failure(Code::kResourceExhausted, "eventfd: {}", errno_text(errno));
  const auto now = Clock::now();
  for (MemberConnection& connection : connections) {
    const bool gone = !connection.socket.valid();  // this one, or not connected
    mesh->peers_.push_back({.socket = std::move(connection.socket),
                            .sealer = Sealer(std::move(connection.keys.send)),
                            .opener = Opener(std::move(connection.keys.receive)),
                            .heard = now,
                            .sent = now,
                            .gone = gone});
  }
  try {
    mesh->thread_ = std::jthread([raw = mesh.get()](const std::stop_token& stop) { raw->run(stop); });
  } catch (const std::system_error&) {
    return failure(Code::kResourceExhausted, "cannot start a thread (limit of processes?)");
  }
  return mesh;
}

HostMesh::~HostMesh() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  ::eventfd_write(wakeup_.get(), 1);
  thread_.join();
  const std::lock_guard lock(mutex_);
  for (Peer& peer : peers_) {
    if (peer.gone) continue;
    enqueue(peer, kGoodbye);
    write_to(peer);
    ::shutdown(peer.socket.get(), SHUT_WR);
  }
}

void HostMesh::send(int to, std::string_view message) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<std::size_t>(to)];
  if (peer.gone || message.empty()) return;
  const bool queued = !peer.out.empty();
  enqueue_message(peer, message);
  if (queued) return;  // the thread is sending
  write_to(peer);
  if (!peer.out.empty()) ::eventfd_write(wakeup_.get(), 1);
}

// REQUIRES: mutex_ is held.
void HostMesh::enqueue_message(Peer& peer, std::string_view message) {
  std::string body;
  while (!message.empty()) {
    const std::string_view piece = message.substr(0, kMaxPiece);
    message.remove_prefix(piece.size());
    body.assign(1, message.empty() ? kLast : kMore).append(piece);
    enqueue(peer, static_cast<std::uint32_t>(body.size()), body);
  }
}

// REQUIRES: mutex_ is held.
void HostMesh::enqueue(Peer& peer, std::uint32_t length, std::string_view body) {
  std::string frame;
  frame.reserve(sizeof length + body.size());
  append_little(frame, length);
  frame.append(body);
  peer.sealer.seal(frame, peer.out);
}

// REQUIRES: mutex_ is held. A broken connection is noticed when reading.
void HostMesh::write_to(Peer& peer) {
  while (!peer.out.empty()) {
    const auto count = ::send(peer.socket.get(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (errno != EAGAIN) peer.out.clear();
      return;
    }
    peer.out.erase(0, static_cast<std::size_t>(count));
    peer.sent = Clock::now();
  }
}

void HostMesh::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> entries{{.fd = wakeup_.get(), .events = POLLIN, .revents = 0}};
    std::vector<int> members;
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t member = 0; member < peers_.size(); ++member) {
        const Peer& peer = peers_[member];
        if (peer.gone) continue;
        const short events = peer.out.empty() ? POLLIN : POLLIN | POLLOUT;
        entries.push_back({.fd = peer.socket.get(), .events = events, .revents = 0});
        members.push_back(static_cast<int>(member));
      }
    }
    const auto beat = std::chrono::duration_cast<std::chrono::milliseconds>(silence_).count() / 5;
    const bool watches = silence_.count() > 0 && !members.empty();
    ::poll(entries.data(), entries.size(), watches ? static_cast<int>(std::clamp<std::int64_t>(beat, 10, 10000)) : -1);
    eventfd_t ignored = 0;
    ::eventfd_read(wakeup_.get(), &ignored);
    const auto now = Clock::now();
    for (std::size_t i = 0; i < members.size(); ++i) {
      const short happened = entries[i + 1].revents;
      if ((happened & (POLLIN | POLLHUP | POLLERR)) != 0) read_from(members[i], now);
      if ((happened & POLLOUT) != 0) {
        const std::lock_guard lock(mutex_);
        write_to(peers_[static_cast<std::size_t>(members[i])]);
      }
    }
    if (watches) keep_alive(now);
  }
}

void HostMesh::read_from(int member, Clock::time_point now) {
  Peer& peer = peers_[static_cast<std::size_t>(member)];
  char bytes[65536];
  std::string plain;
  while (!peer.gone) {
    const auto count = ::recv(peer.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0 && errno != ECONNRESET)
      return lose(member, errno == ETIMEDOUT || errno == EHOSTUNREACH, errno_text(errno));
    if (count <= 0) return lose(member, false, "the connection was closed");
    peer.heard = now;
    plain.clear();
    const Status opened = peer.opener.open({bytes, static_cast<std::size_t>(count)}, plain);
    if (!opened) return lose(member, false, opened.error().message());
    peer.in.append(plain);
    if (!take_messages(member)) return;
  }
}

// False: the peer has closed, or is lost.
bool HostMesh::take_messages(int member) {
  Peer& peer = peers_[static_cast<std::size_t>(member)];
  while (const auto body = peer.in.next(kMaxPiece + 1)) {
    if (body->empty()) continue;
    const char kind = body->front();
    if (kind != kLast && kind != kMore) return lose_malformed(member);
    peer.pieces.append(body->substr(1));
    if (kind == kLast) events_.message(*this, member, std::exchange(peer.pieces, {}));
  }
  const std::uint32_t length = peer.in.next_length().value_or(kAlive);
  if (length == kGoodbye) {
    const std::lock_guard lock(mutex_);
    peer.gone = true;
    return false;
  }
  return length <= kMaxPiece + 1 || lose_malformed(member);
}

bool HostMesh::lose_malformed(int member) {
  lose(member, false, "it sent a malformed message");
  return false;
}

void HostMesh::keep_alive(Clock::time_point now) {
  for (std::size_t member = 0; member < peers_.size(); ++member) {
    Peer& peer = peers_[member];
    if (peer.gone) continue;
    if (now - peer.heard > silence_) {
      lose(static_cast<int>(member), true, fmt::format("{} for {}", kNothingHeard, human_seconds(now - peer.heard)));
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (!peer.out.empty() || now - peer.sent < silence_ / 5) continue;
    enqueue(peer, kAlive);
    write_to(peer);
  }
}

void HostMesh::lose(int member, bool silent, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    peers_[static_cast<std::size_t>(member)].gone = true;
  }
  events_.lost(member, silent, why);
}

}  // namespace xoe::bootstrap

#include "core/backend/gloo/mesh.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "core/backend/gloo/close_reason.h"
#include "core/backend/gloo/connected.h"
#include "core/backend/gloo/sigpipe_guard.h"
#include "core/base/error.h"

namespace xoe::gloo {
namespace {

using std::chrono::milliseconds;

constexpr auto kCheckInterval = std::chrono::seconds(1);

// Longer than any job: at the end of a wait Gloo closes all connections. Gloo adds it to the time of day, in
// nanoseconds.
constexpr milliseconds kForever = std::chrono::years(50);
static_assert(std::chrono::nanoseconds(kForever) + std::chrono::years(100) < std::chrono::nanoseconds::max());
// A member that failed keeps its connections for so long: the others see by themselves which rank went first.
constexpr milliseconds kGrace{50};

// The mesh's own slots; the slots of collectives have the highest bit set.
constexpr std::uint64_t kLivenessSlot = 1, kCloseSlot = 2, kHandshakeSlot = 3;

using Context = ::gloo::transport::Context;

// What Gloo gets of the members' connections.
struct Ends {
  std::vector<Fd> sockets;
  std::unique_ptr<SealedRelay> relay = nullptr;  // between these and the other members, if they are encrypted
};

Result<Ends> make_ends(std::vector<bootstrap::MemberConnection> connections, const MeshOptions& options,
                       const net::Members& members) {
  Ends ends;
  if (!options.encrypt) {
    for (auto& connection : connections) ends.sockets.push_back(std::move(connection.socket));
    return ends;
  }
  const auto changed = [ranks = members.ranks, warn = options.connection.warn](std::size_t connection) {
    if (warn)
      warn(fmt::format("gloo: something between the hosts changed what rank {} sent; its connection is closed",
                       ranks[connection % ranks.size()]));
  };
  XOE_ASSIGN(ends.relay, SealedRelay::start(std::move(connections), changed));
  ends.sockets = ends.relay->take_plain_ends();
  return ends;
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::connect(const std::shared_ptr<::gloo::transport::Device>& device,
                                            MeshOptions options, const net::Members& members,
                                            const net::Exchange& exchange, Clock::time_point deadline) {
  const int size = static_cast<int>(members.ranks.size());
  options.connection.secret = members.secret;
  options.connection.lanes = 2;
  options.connection.check = members.check;
  options.connection.name = [&members](int member) { return fmt::format("rank {}", members.ranks[index(member)]); };
  auto connections = bootstrap::connect_members(members.self, size, exchange, options.connection, deadline);
  if (!connections) return failure(connections.error().code(), "gloo: {}", connections.error().message());
  XOE_ASSIGN(Ends ends, make_ends(std::move(*connections), options, members));
  std::unique_ptr<Mesh> mesh;
  try {
    auto contexts = make_contexts(*device, members.self, size, ends.sockets);
    mesh.reset(new Mesh(device, members, std::move(ends.relay), std::move(contexts[0]), std::move(contexts[1])));
  } catch (const std::exception& e) {
    return failure(Code::kPeerLost, "gloo: a connection broke at once: {}", e.what());
  }
  XOE_TRY(mesh->handshake(deadline));
  return mesh;
}

Mesh::Mesh(std::shared_ptr<::gloo::transport::Device> device, net::Members members, std::unique_ptr<SealedRelay> relay,
           std::shared_ptr<Context> data, std::shared_ptr<Context> control)
    : device_(std::move(device)),
      members_(std::move(members)),
      relay_(std::move(relay)),
      data_(std::move(data)),
      control_(std::move(control)),
      peers_(members_.ranks.size()),
      close_notices_(members_.ranks.size()),
      notice_buffer_(
          control_->createUnboundBuffer(close_notices_.data(), close_notices_.size() * sizeof close_notices_[0])) {
  for (int m = 0; m < size(); ++m)
    if (m != self()) notice_buffer_->recv(m, kCloseSlot, index(m) * sizeof(std::uint64_t), sizeof(std::uint64_t));
  open_channels(*control_);
  const auto lock = locked();
  post_liveness();
  watcher_ = std::jthread([this] { watch(); });
  deadline_thread_ = std::jthread([this] { keep_deadline(); });
}

void Mesh::open_channels(Context& context) {
  for (int m = 0; m < size(); ++m) {
    if (m == self()) continue;
    // It spans all addresses, so that no buffer has to be made for each message.
    for (auto& channel : peer_at(m).channels)
      channel = context.createUnboundBuffer(nullptr, std::numeric_limits<std::size_t>::max() - 1);
  }
}

Mesh::~Mesh() {
  {
    const auto lock = locked();
    fail({Code::kUnavailable, "gloo: this rank left"}, make_close_notice(CloseReason::kLeft, 0));
  }
  deadline_thread_.join();
  watcher_.join();
}

// When this returns, all members have connected with all, and each knows that the others receive its close notice: they
// posted that receive before their message over the same connections.
Status Mesh::handshake(Clock::time_point deadline) {
  const auto check = [this](bool checks) {
    const auto lock = locked();
    checks_ = checks;
    check_at_ = Clock::now() + kCheckInterval;
    deadline_is_earlier_.notify_one();
  };
  check(members_.check != nullptr);
  const auto exchange = [&]() -> Status {
    XOE_TRY(enter(deadline));
    for (int m = 0; m < size(); ++m)
      if (m != self()) XOE_TRY(receive(m, kFirstChannel, kHandshakeSlot, nullptr, 0));
    for (int m = 0; m < size(); ++m)
      if (m != self()) XOE_TRY(send(m, kFirstChannel, kHandshakeSlot, nullptr, 0));
    for (int m = 0; m < size(); ++m) {
      if (m == self()) continue;
      XOE_TRY(wait_received(m, kFirstChannel));
      XOE_TRY(wait_sent(m, kFirstChannel));
    }
    return {};
  };
  const Status outcome = exchange();
  check(false);
  XOE_TRY(leave(outcome, "gloo: connecting"));
  const auto lock = locked();
  if (!cause_) open_channels(*data_);
  return {};
}

Status Mesh::enter(Clock::time_point deadline) {
  const auto lock = locked();
  if (cause_) return failure(*cause_);
  running_ = true;
  deadline_ = deadline;
  started_ = Clock::now();
  if (deadline < next_check_) deadline_is_earlier_.notify_one();
  return {};
}

Status Mesh::leave(Status outcome, std::string_view title) {
  auto lock = locked();
  // A turn that completed is good, also when a member went meanwhile: the next turn fails.
  if (!outcome) {
    if (!cause_) fail(outcome.error(), make_close_notice(CloseReason::kAborted, 0));
    if (!std::exchange(titled_, true)) cause_ = Error(cause_->code(), fmt::format("{}: {}", title, cause_->message()));
    outcome = failure(*cause_);
    if (running_) {  // otherwise nothing was posted, and the watcher may be closing the connections
      lock.unlock();
      release_buffers();
      lock.lock();
    }
  }
  running_ = false;
  changed_.notify_all();
  return outcome;
}

// Stops the device's thread from using the caller's memory. No other thread uses a channel once there is a cause.
void Mesh::release_buffers() {
  const AwakeDevice awake(device_);
  for (int m = 0; m < size(); ++m) {
    if (m == self()) continue;
    data_->getPair(m)->close();
    for (auto& channel : peer_at(m).channels) channel.reset();
  }
}

Status Mesh::send(int peer, Channel channel, std::uint64_t slot, const void* data, std::size_t bytes) {
  try {
    peer_at(peer).channels[channel]->send(peer, slot, reinterpret_cast<std::uintptr_t>(data), bytes);
    return {};
  } catch (const std::exception& e) {
    return broken(peer, e.what());
  }
}

Status Mesh::receive(int peer, Channel channel, std::uint64_t slot, void* data, std::size_t bytes) {
  try {
    peer_at(peer).channels[channel]->recv(peer, slot, reinterpret_cast<std::uintptr_t>(data), bytes);
    return {};
  } catch (const std::exception& e) {
    return broken(peer, e.what());
  }
}

Status Mesh::wait(int peer, Channel channel, bool received) {
  Buffer& buffer = *peer_at(peer).channels[channel];
  awaited_.store(peer, std::memory_order_relaxed);
  try {
    if (received ? buffer.waitRecv(nullptr, kForever) : buffer.waitSend(nullptr, kForever)) return {};
  } catch (const std::exception& e) {
    return broken(peer, e.what());
  }
  const auto lock = locked();
  return failure(*cause_);  // nothing else ends a wait
}

// Finds out why Gloo gave up on this peer.
Status Mesh::broken(int peer, const char* what) {
  auto lock = locked();
  // The watcher is about to learn the cause.
  changed_.wait_for(lock, std::chrono::seconds(3), [&] { return cause_ || peer_at(peer).gone; });
  if (!cause_ && peer_at(peer).gone)
    fail({Code::kPeerLost, fmt::format("rank {} left the group", job_rank(peer))},
         make_close_notice(CloseReason::kLost, job_rank(peer)));
  if (!cause_)
    fail({Code::kPeerLost, fmt::format("the connection to rank {} broke: {}", job_rank(peer), what)},
         make_close_notice(CloseReason::kLost, job_rank(peer)));
  return failure(*cause_);
}

void Mesh::abort() noexcept {
  const auto lock = locked();
  fail({Code::kUnavailable, "aborted"}, make_close_notice(CloseReason::kAborted, 0));
}

// --- the threads: they notice broken connections and deadlines, wake waiting threads, and close the connections ---

// Posts the receives of liveness_ again, which fails where a connection is broken.
void Mesh::post_liveness() {
  auto fresh = control_->createUnboundBuffer(nullptr, 0);
  std::vector<int> gone;
  for (int m = 0; m < size(); ++m) {
    if (m == self() || peer_at(m).gone) continue;
    try {
      fresh->recv(m, kLivenessSlot, 0, 0);
    } catch (const std::exception&) {
      peer_at(m).gone = true;
      gone.push_back(m);
    }
  }
  liveness_ = std::move(fresh);
  // Members that sent a reason first: the others may be silent because of them.
  std::stable_partition(gone.begin(), gone.end(), [&](int m) { return close_notices_[index(m)] != 0; });
  for (const int m : gone) read_close_notice(m);
  changed_.notify_all();
}

void Mesh::read_close_notice(int member) {
  const std::uint64_t notice = close_notices_[index(member)];
  const int rank = job_rank(member), other = rank_of(notice);
  if (notice == 0) {
    fail({Code::kPeerLost, fmt::format("rank {} ended, or its connection broke", rank)},
         make_close_notice(CloseReason::kLost, rank));
    return;
  }
  switch (reason_of(notice)) {
    case CloseReason::kLeft: return;  // only members that still need it fail, and Gloo wakes them
    case CloseReason::kLost:
      fail({Code::kPeerLost, fmt::format("rank {} was lost (rank {} noticed)", other, rank)}, notice);
      return;
    case CloseReason::kTimeout:
      fail({Code::kTimeout, fmt::format("rank {} gave up: rank {} did not take its part in time", rank, other)},
           notice);
      return;
    case CloseReason::kAborted: break;
  }
  fail({Code::kPeerLost, fmt::format("rank {} gave up", rank)}, make_close_notice(CloseReason::kLost, rank));
}

void Mesh::fail(Error cause, std::uint64_t notice) {
  if (cause_) return;
  cause_ = std::move(cause);
  own_notice_ = notice;
  for (Peer& peer : peers_) {
    for (const auto& channel : peer.channels) {
      if (!channel) continue;
      channel->abortWaitRecv();
      channel->abortWaitSend();
    }
  }
  if (liveness_) liveness_->abortWaitRecv();
  changed_.notify_all();
  deadline_is_earlier_.notify_all();
}

void Mesh::watch() {
  const SigpipeGuard guard;
  for (auto lock = locked(); !cause_;) {
    lock.unlock();
    try {
      liveness_->waitRecv(nullptr, kForever);
    } catch (const std::exception&) {  // a connection broke: post_liveness() tells whose
    }
    lock.lock();
    if (!cause_) post_liveness();
  }
  auto lock = locked();
  if (reason_of(own_notice_) != CloseReason::kLeft) changed_.wait_for(lock, kGrace, [] { return false; });
  changed_.wait(lock, [&] { return !running_; });
  lock.unlock();
  send_notice_and_close();
}

void Mesh::keep_deadline() {
  for (auto lock = locked(); !cause_;) {
    const auto now = Clock::now();
    if (running_ && now >= deadline_) {
      const int rank = job_rank(awaited_.load(std::memory_order_relaxed));
      const double waited = std::chrono::duration<double>(now - started_).count();
      fail({Code::kTimeout, fmt::format("rank {} did not take its part within {:.3g} s", rank, waited)},
           make_close_notice(CloseReason::kTimeout, rank));
      return;
    }
    if (checks_ && now >= check_at_) {
      lock.unlock();
      const Status they_come = members_.check();
      lock.lock();
      check_at_ = Clock::now() + kCheckInterval;
      if (!they_come && checks_) fail(they_come.error(), make_close_notice(CloseReason::kAborted, 0));
      continue;
    }
    // Most deadlines are later than the one before, and then this thread need not be woken for them.
    next_check_ = std::min({running_ ? deadline_ : Clock::time_point::max(),
                            checks_ ? check_at_ : Clock::time_point::max(), now + kForever});
    deadline_is_earlier_.wait_until(lock, next_check_);
  }
}

void Mesh::send_notice_and_close() {
  const auto buffer = control_->createUnboundBuffer(&own_notice_, sizeof own_notice_);
  for (int m = 0; m < size(); ++m) {
    if (m == self() || peer_at(m).gone) continue;
    try {
      buffer->send(m, kCloseSlot);
    } catch (const std::exception&) {  // it has gone, too
    }
  }
  const AwakeDevice awake(device_);
  for (const auto& context : {control_, data_})
    for (int m = 0; m < size(); ++m)
      if (m != self()) context->getPair(m).reset();
}

}  // namespace xoe::gloo

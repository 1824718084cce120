// Sockets, and the links between hosts.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/testing/sim/objects.h"

namespace xoe::sim {
namespace {

constexpr std::uint32_t kLoopback = 0x7f000000, kLoopbackMask = 0xff000000;
constexpr Time kConnectTimeout = 127 * kSecond;  // six tries, as Linux makes them

}  // namespace

Machine* Kernel::machine_at(std::uint32_t address) const {
  if ((address & kLoopbackMask) == kLoopback || address == 0) return current().machine;
  for (const auto& machine : machines)
    if (machine->number == address) return machine.get();
  return nullptr;
}

bool Kernel::cut(const Machine& from, const Machine& to) const { return cuts.contains({&from, &to}); }

Time Kernel::delay(const Machine& from, const Machine& to) {
  if (&from == &to) return cost(20 * kMicro);
  Time time = options.latency + cost(options.jitter + 1);
  if (random.chance(options.slow_message)) time += cost(options.slow + 1);
  return time;
}

void Kernel::send_between(Machine& from, Machine& to, const LanePtr& lane, std::function<void()> arrive) {
  if (!from.on) return;
  lane->messages.push_back(std::move(arrive));
  arrive_later(from, to, lane);
}

// The first message that has not arrived does.
void Kernel::arrive_later(Machine& from, Machine& to, const LanePtr& lane) {
  lane->last = std::max(now() + delay(from, to), lane->last + 1);
  at(lane->last, [this, &from, &to, lane] {
    if (to.on && cut(from, to)) {
      held.emplace_back([this, &from, &to, lane] { arrive_later(from, to, lane); });
      return;
    }
    const auto message = std::move(lane->messages.front());
    lane->messages.pop_front();
    if (!to.on) return;
    note(static_cast<std::uint64_t>(from.number) * 7 + to.number);
    message();
  });
}

void Kernel::heal() {
  auto messages = std::move(held);
  held.clear();
  for (const auto& message : messages) message();
}

short Socket::ready() {
  switch (state_) {
    case State::kNew: return POLLOUT | POLLHUP;
    case State::kListening: return waiting_.empty() ? 0 : POLLIN;
    case State::kConnecting: return 0;
    case State::kFailed: return POLLIN | POLLOUT | POLLERR | POLLHUP;
    case State::kConnected: break;
  }
  int events = 0;
  if (!arrived_.empty() || ended_ || was_reset_) events |= POLLIN;
  if (was_reset_ || room() > 0) events |= POLLOUT;
  if (ended_) events |= POLLRDHUP;
  if (was_reset_ || (ended_ && stopped_)) events |= POLLHUP;
  if (was_reset_ && error_ != 0) events |= POLLERR;
  return static_cast<short>(events);
}

std::size_t Socket::room() const {
  if (peer_ == nullptr || peer_->closed_) return kWindow;
  const std::size_t used = peer_->arrived_bytes_ + in_flight_;
  return used < kWindow ? kWindow - used : 0;
}

void Socket::send_to_peer(std::function<void(Socket& peer)> arrives) {
  if (peer_ == nullptr) return;
  if (local(*peer_) && family_ == AF_UNIX) return arrives(*peer_);
  kernel->send_between(machine_, peer_->machine_, lane_,
                       [me = shared(), peer = peer_, arrives = std::move(arrives)] { arrives(*peer); });
}

void Socket::arrive(std::string bytes) {
  if (peer_ != nullptr) peer_->in_flight_ -= std::min(peer_->in_flight_, bytes.size());
  if (closed_) {  // the answer is a reset
    send_to_peer([](Socket& peer) { peer.reset(ECONNRESET); });
    return;
  }
  if (was_reset_) return;
  arrived_bytes_ += bytes.size();
  arrived_.push_back(std::move(bytes));
  changed();
}

void Socket::reset(int error) {
  if (was_reset_ || closed_) return;
  was_reset_ = true;
  error_ = error;
  changed();  // what had arrived before can still be read
}

ssize_t Socket::read(void* bytes, std::size_t size, bool waits, int flags) {
  if (state_ != State::kConnected) return errno = state_ == State::kFailed ? take_error() : ENOTCONN, -1;
  if (!wait_until(waits, [this] { return !arrived_.empty() || ended_ || was_reset_; })) return -1;
  if (arrived_.empty()) {
    if (const int error = take_error(); error != 0) return errno = error, -1;
    return 0;
  }
  const bool looks = (flags & MSG_PEEK) != 0;
  if (type_ != SOCK_STREAM) {
    const std::string& message = arrived_.front();
    const std::size_t count = std::min(size, message.size());
    std::memcpy(bytes, message.data(), count);
    if (looks) return static_cast<ssize_t>(count);
    arrived_bytes_ -= message.size();
    arrived_.pop_front();
    if (peer_ != nullptr) peer_->changed();
    return static_cast<ssize_t>(count);
  }
  if (size > 64 && !looks && kernel->random.chance(kernel->options.short_read)) size = 1 + kernel->random.below(size);
  std::size_t done = 0;
  for (std::size_t at = 0; at < arrived_.size() && done < size;) {
    std::string& piece = arrived_[at];
    const std::size_t count = std::min(size - done, piece.size());
    std::memcpy(static_cast<char*>(bytes) + done, piece.data(), count);
    done += count;
    if (looks) {
      ++at;
      continue;
    }
    arrived_bytes_ -= count;
    if (count == piece.size())
      arrived_.pop_front();
    else
      piece.erase(0, count);
  }
  if (!looks && peer_ != nullptr) peer_->changed();
  return static_cast<ssize_t>(done);
}

ssize_t Socket::write(const void* bytes, std::size_t size, bool waits) {
  if (state_ != State::kConnected) return errno = state_ == State::kFailed ? take_error() : ENOTCONN, -1;
  std::size_t done = 0;
  do {
    if (was_reset_ || stopped_) {
      errno = EPIPE;
      if (const int error = take_error(); error != 0) errno = error;
      return done > 0 ? static_cast<ssize_t>(done) : -1;
    }
    const bool whole = type_ != SOCK_STREAM;
    const auto fits = [&] { return was_reset_ || room() >= (whole ? size : 1); };
    if (!wait_until(waits, fits)) return done > 0 ? static_cast<ssize_t>(done) : -1;
    if (was_reset_) continue;
    std::size_t count = whole ? size : std::min(size - done, room());
    if (!whole && count > 4096 && kernel->random.chance(kernel->options.short_read))
      count = 1 + kernel->random.below(count);
    std::string piece(static_cast<const char*>(bytes) + done, count);
    done += count;
    if (peer_->closed_ && local(*peer_) && family_ == AF_UNIX) {
      was_reset_ = true;
      return errno = EPIPE, -1;
    }
    in_flight_ += count;
    send_to_peer([piece = std::move(piece)](Socket& peer) { peer.arrive(piece); });
    if (whole || !waits) break;
  } while (done < size);
  return static_cast<ssize_t>(done);
}

void Socket::on_last_close() {
  closed_ = true;
  if (state_ == State::kListening || state_ == State::kNew) {
    forget_address();
    for (const auto& one : waiting_) one->on_last_close();
    waiting_.clear();
  }
  if (state_ != State::kConnected || was_reset_) return;
  const bool loses = arrived_bytes_ > 0;
  send_to_peer([loses](Socket& peer) {
    if (loses) return peer.reset(ECONNRESET);
    peer.ended_ = true;
    if (!peer.closed_) peer.changed();
  });
}

void Socket::forget_address() {
  if (const auto found = machine_.names.find(here_.name); found != machine_.names.end() && found->second.get() == this)
    machine_.names.erase(found);
  if (const auto found = machine_.listening.find(here_.port);
      found != machine_.listening.end() && found->second.get() == this)
    machine_.listening.erase(found);
}

int Socket::shut_down(int how) {
  if (state_ == State::kListening) return state_ = State::kNew, changed(), 0;
  if (state_ != State::kConnected) return errno = ENOTCONN, -1;
  if (how == SHUT_RD) return ended_ = true, changed(), 0;
  if (std::exchange(stopped_, true)) return 0;
  if (how == SHUT_RDWR) ended_ = true;
  send_to_peer([](Socket& peer) {
    peer.ended_ = true;
    if (!peer.closed_) peer.changed();
  });
  changed();
  return 0;
}

int Socket::choose_port() {
  while (machine_.listening.contains(machine_.next_port)) ++machine_.next_port;
  return machine_.next_port++;
}

int Socket::bind(const Address& address) {
  if (address.family == AF_UNIX ? machine_.names.contains(address.name) : machine_.listening.contains(address.port))
    return errno = EADDRINUSE, -1;
  if (address.family != AF_UNIX && address.host != 0 && kernel->machine_at(address.host) != &machine_)
    return errno = EADDRNOTAVAIL, -1;
  here_ = address;
  if (here_.family != AF_UNIX && here_.port == 0) here_.port = choose_port();
  return 0;
}

int Socket::listen(int backlog) {
  if (here_.family == AF_UNSPEC) here_ = {.family = static_cast<sa_family_t>(family_), .port = choose_port()};
  if (here_.family == AF_UNIX)
    machine_.names[here_.name] = shared();
  else if (!machine_.listening.emplace(here_.port, shared()).second)
    return errno = EADDRINUSE, -1;
  backlog_ = static_cast<std::size_t>(std::max(backlog, 1));
  state_ = State::kListening;
  return 0;
}

namespace {

ObjectPtr listener_at(const Machine& machine, const Address& address) {
  if (address.family == AF_UNIX) {
    const auto found = machine.names.find(address.name);
    return found == machine.names.end() ? nullptr : found->second;
  }
  const auto found = machine.listening.find(address.port);
  return found == machine.listening.end() ? nullptr : found->second;
}

}  // namespace

void Socket::fail_to_connect(int error) {
  if (state_ != State::kConnecting) return;
  state_ = State::kFailed;
  error_ = error;
  changed();
}

// The wish of this socket to connect has arrived there.
void Socket::begin_connection(Machine& to) {
  const auto me = shared();
  const bool here = family_ == AF_UNIX;
  const auto server = std::static_pointer_cast<Socket>(listener_at(to, there_));
  const bool full = server != nullptr && server->waiting_.size() > server->backlog_;
  if (server == nullptr || full) {
    if (here) return fail_to_connect(ECONNREFUSED);
    if (full) return;  // as if the message were lost
    kernel->send_between(to, machine_, std::make_shared<Lane>(), [me] { me->fail_to_connect(ECONNREFUSED); });
    return;
  }
  if (server->state_ != State::kListening) return fail_to_connect(ECONNREFUSED);
  auto other = std::make_shared<Socket>(family_, type_, to);
  other->state_ = State::kConnected;
  other->here_ = there_;
  other->there_ = here_;
  other->peer_ = me;
  const auto answer = [me, other] {
    if (me->state_ != State::kConnecting) return;
    me->state_ = State::kConnected;
    me->peer_ = other;
    me->changed();
    if (me->closed_) other->ended_ = true;
  };
  if (here)
    answer();
  else
    kernel->send_between(to, machine_, other->lane_, answer);
  server->waiting_.push_back(other);
  server->changed();
}

int Socket::connect(const Address& address, bool waits) {
  if (state_ == State::kConnected) return errno = EISCONN, -1;
  if (state_ == State::kConnecting) return errno = EALREADY, -1;
  there_ = address;
  Machine* to = address.family == AF_UNIX ? &machine_ : kernel->machine_at(address.host);
  if (to == &machine_ && address.family != AF_UNIX && machine_.tunnels.contains(address.port))
    to = machine_.tunnels.at(address.port);
  if (to == nullptr) return errno = EHOSTUNREACH, -1;
  if (here_.family == AF_UNSPEC)
    here_ = {.family = address.family,
             .host = to == &machine_ ? address.host : machine_.number,
             .port = address.family == AF_UNIX ? 0 : choose_port()};
  state_ = State::kConnecting;
  if (family_ == AF_UNIX) {
    begin_connection(*to);
  } else {
    kernel->send_between(machine_, *to, lane_, [me = shared(), to] { me->begin_connection(*to); });
    kernel->at(kernel->now() + kConnectTimeout, [me = shared()] { me->fail_to_connect(ETIMEDOUT); });
  }
  if (!waits && state_ == State::kConnecting) return errno = EINPROGRESS, -1;
  if (!wait_until(true, [this] { return state_ != State::kConnecting; })) return -1;
  if (state_ == State::kConnected) return 0;
  state_ = State::kNew;
  errno = take_error();
  return -1;
}

std::shared_ptr<Socket> Socket::accept(bool waits) {
  if (state_ != State::kListening) return errno = EINVAL, nullptr;
  if (!wait_until(waits, [this] { return !waiting_.empty() || state_ != State::kListening; })) return nullptr;
  if (state_ != State::kListening) return errno = EINVAL, nullptr;
  auto first = waiting_.front();
  waiting_.pop_front();
  return first;
}

std::array<ObjectPtr, 2> make_socket_pair(int type, Machine& machine) {
  const auto one = std::make_shared<Socket>(AF_UNIX, type, machine);
  const auto other = std::make_shared<Socket>(AF_UNIX, type, machine);
  one->peer_ = other;
  other->peer_ = one;
  one->state_ = other->state_ = Socket::State::kConnected;
  return {one, other};
}

}  // namespace xoe::sim

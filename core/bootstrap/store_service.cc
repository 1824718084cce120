#include "core/bootstrap/store_service.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/base/constant_time.h"
#include "core/base/error.h"
#include "core/base/no_room.h"
#include "core/base/text.h"
#include "core/bootstrap/await_ranks.h"
#include "core/bootstrap/sealed_stream.h"

namespace xoe::bootstrap {
namespace {

constexpr std::size_t kReadChunk = 16384;
// An unauthenticated client gets no more memory than its hello takes.
constexpr std::size_t kMaxHello = kStoreMagic.size() + kMaxSecret + 64;

constexpr std::string_view kWorldKeys = "world/";

void append_passed(std::string& replies) {
  append_fail(replies, Code::kUnavailable, "store: another version of the world has begun");
}

}  // namespace

std::string world_keys(int version) { return fmt::format("{}{}/", kWorldKeys, version); }

std::string_view world_of(std::string_view key) {
  if (!key.starts_with(kWorldKeys)) return {};
  return key.substr(0, key.find('/', kWorldKeys.size()) + 1);
}

namespace {

std::optional<std::int64_t> version_of(std::string_view key) {
  const std::string_view world = world_of(key);
  if (world.empty()) return std::nullopt;
  return parse_integer(world.substr(kWorldKeys.size(), world.size() - kWorldKeys.size() - 1));
}

}  // namespace

// Requests are answered in order: while a get waits for its key, no further request of its connection is answered.
struct StoreService::Connection {
  Fd socket;
  FrameBuffer reader = {};
  std::string out = {};     // replies
  std::string sealed = {};  // replies that are on their way
  bool authenticated = false;
  std::string expected_proof = {};
  SessionKeys keys = {};
  std::optional<Sealer> sealer = {};  // both: once the client is authenticated, over TCP
  std::optional<Opener> opener = {};
  std::string waits_for = {};
  std::uint32_t watched = 0;
  Clock::time_point deadline = Clock::time_point::max();  // for authentication, or for the rest of a message
};

Result<std::unique_ptr<StoreService>> StoreService::listen(const SocketAddress& address, std::string_view secret,
                                                           StoreLimits limits) {
  if (secret.size() > kMaxSecret)
    return failure(Code::kInvalidArgument, "store: the secret is {} bytes long; at most {}", secret.size(), kMaxSecret);
  if (address.remote() && secret.empty())
    return failure(Code::kInvalidArgument, "store: serving other hosts requires a secret");
  XOE_ASSIGN(Fd listener, listen_at(address));
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return failure(Code::kResourceExhausted, "store: epoll: {}", errno_text(errno));
  epoll_event event{.events = EPOLLIN, .data = {.fd = listener.get()}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, listener.get(), &event) != 0)
    return failure(Code::kResourceExhausted, "store: epoll: {}", errno_text(errno));
  return std::unique_ptr<StoreService>(new StoreService(std::move(listener), std::move(epoll), secret, limits));
}

StoreService::StoreService(Fd listener, Fd epoll, std::string_view secret, StoreLimits limits)
    : listener_(std::move(listener)),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      epoll_(std::move(epoll)),
      remote_(SocketAddress::of(listener_.get()).remote()),
      text_(SocketAddress::of(listener_.get()).text()),
      secret_(secret),
      limits_(limits) {}

StoreService::~StoreService() = default;

int StoreService::poll_timeout_ms() const {
  auto first = accept_at_;
  for (const auto& [fd, connection] : connections_) first = std::min(first, connection->deadline);
  if (first == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000));
}

void StoreService::serve() {
  if (accept_at_ <= Clock::now()) watch_listener(true);
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool accepts = false;
  for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(count, 0)))) {
    if (event.data.fd == listener_.get())
      accepts = true;
    else if (const auto found = connections_.find(event.data.fd); found != connections_.end())
      keep_or_drop(*found->second, on_ready(*found->second, event.events));
  }
  // After the loop, because a new socket may reuse a descriptor that an event of this round refers to.
  if (accepts) accept_all();
  drop_expired();
  while (!resumed_.empty()) {
    const int fd = resumed_.back();
    resumed_.pop_back();
    if (const auto found = connections_.find(fd); found != connections_.end())
      keep_or_drop(*found->second, answer_all(*found->second));
  }
}

void StoreService::accept_all() {
  // A bounded number at a time: a flood of connections must not delay the authenticated ones.
  for (int i = 0; i < 64; ++i) {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid() && is_no_room(errno)) {
      if (refuse_one()) continue;
      return watch_listener(false);
    }
    if (!socket.valid()) return;
    if (remote_) set_tcp_options(socket.get());
    if (remote_ || peer_is_same_user(socket.get())) add_connection(std::move(socket));
  }
}

bool StoreService::refuse_one() {
  spare_ = Fd();
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool accepted = socket.valid();
  if (accepted) refuse(socket, "store: the process that serves it has no file descriptor left (ulimit -n)");
  socket = Fd();
  spare_ = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return accepted;
}

void StoreService::watch_listener(bool watches) {
  epoll_event event{.events = watches ? EPOLLIN : 0U, .data = {.fd = listener_.get()}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
  accept_at_ = watches ? Clock::time_point::max() : Clock::now() + kNoRoomPause;
}

void StoreService::refuse(const Fd& socket, std::string_view why) {
  std::string refusal;
  append_fail(refusal, Code::kResourceExhausted, why);
  ::send(socket.get(), refusal.data(), refusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void StoreService::add_connection(Fd socket) {
  if (connections_.size() >= limits_.connections) {
    return refuse(socket, "store: too many connections");
  }
  if (unauthenticated_ >= limits_.unauthenticated) drop_oldest_unauthenticated();
  const int fd = socket.get();
  auto connection = std::make_unique<Connection>();
  connection->socket = std::move(socket);
  connection->deadline = Clock::now() + limits_.hello_timeout;
  connection->watched = EPOLLIN | EPOLLRDHUP;
  epoll_event event{.events = connection->watched, .data = {.fd = fd}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return;
  Connection& added = *connections_.emplace(fd, std::move(connection)).first->second;
  ++unauthenticated_;
  keep_or_drop(added, on_ready(added, EPOLLIN));  // the hello has usually arrived with the connection
}

bool StoreService::on_ready(Connection& connection, std::uint32_t events) {
  if ((events & EPOLLERR) != 0) return false;
  if ((events & EPOLLOUT) != 0 && !answer_all(connection)) return false;
  if ((events & EPOLLIN) != 0) return read_from(connection);
  // The peer has left, and its data was read, or it waits for a reply that it will not read.
  return (events & (EPOLLHUP | EPOLLRDHUP)) == 0;
}

bool StoreService::read_from(Connection& connection) {
  std::array<char, kReadChunk> chunk;
  const auto count = ::recv(connection.socket.get(), chunk.data(), chunk.size(), 0);
  if (count == 0) return false;
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  std::string_view bytes(chunk.data(), static_cast<std::size_t>(count));
  std::string plain;
  if (connection.opener) {
    if (!connection.opener->open(bytes, plain)) return false;
    bytes = plain;
  }
  connection.reader.append(bytes);
  if (connection.authenticated) connection.deadline = Clock::time_point::max();  // more has arrived
  return answer_all(connection) && (connection.authenticated || connection.reader.partial() <= kMaxHello);
}

// False while a get waits for its key, or the client does not read its replies.
bool StoreService::may_answer(const Connection& connection) const {
  return connection.waits_for.empty() && connection.out.size() + connection.sealed.size() < limits_.unread;
}

bool StoreService::answer_all(Connection& connection) {
  bool more = true;
  do {
    if (!answer_some(connection, more) || !flush(connection)) return false;
  } while (more && may_answer(connection));    // sent replies make room for further ones
  if (!connection.authenticated) return true;  // the deadline for authentication stays
  if (!may_answer(connection) || connection.reader.partial() == 0)
    connection.deadline = Clock::time_point::max();
  else if (connection.deadline == Clock::time_point::max())
    connection.deadline = Clock::now() + limits_.message_timeout;
  return true;
}

// more: whether there may be another request.
bool StoreService::answer_some(Connection& connection, bool& more) {
  while (more && may_answer(connection)) {
    auto body = next_body(connection.reader);
    if (!body) return false;
    more = body->has_value();
    if (!more) break;
    const auto frame = parse_body(**body);
    if (!frame || !answer(connection, *frame)) return false;
  }
  return true;
}

bool StoreService::answer(Connection& connection, const Frame& frame) {
  if (!connection.authenticated) return authenticate(connection, frame);
  if (frame.kind != FrameKind::kRemove && has_passed(frame.key)) {
    append_passed(connection.out);
    return true;
  }
  switch (frame.kind) {
    case FrameKind::kSet: {
      const Status done = set(frame.key, frame.value);
      if (done)
        append_value(connection.out, {});
      else
        append_fail(connection.out, done.error().code(), done.error().message());
      return true;
    }
    case FrameKind::kGet:
      if (const auto value = find(frame.key)) {
        append_value(connection.out, *value);
      } else {
        connection.waits_for = frame.key;
        waiters_[connection.waits_for].push_back(connection.socket.get());
      }
      return true;
    case FrameKind::kRemove:
      remove(frame.key);
      append_value(connection.out, {});
      return true;
    default: return false;
  }
}

bool StoreService::authenticate(Connection& connection, const Frame& frame) {
  if (!remote_)
    return frame.kind == FrameKind::kHello && admit(connection, equal_in_constant_time(frame.value, secret_));
  if (frame.kind == FrameKind::kClientHello && connection.expected_proof.empty()) {
    const std::string nonce = make_nonce();
    connection.expected_proof = make_proof(secret_, End::kClient, frame.value, nonce);
    connection.keys = session_keys(secret_, End::kServer, frame.value, nonce);
    append_challenge(connection.out, nonce + make_proof(secret_, End::kServer, frame.value, nonce));
    return true;
  }
  // Nothing that another program put behind the proof is taken for a request of the client.
  return frame.kind == FrameKind::kProof && connection.reader.partial() == 0 &&
         admit(connection, equal_in_constant_time(frame.value, connection.expected_proof));
}

bool StoreService::admit(Connection& connection, bool knows_secret) {
  if (!knows_secret) {
    append_fail(connection.out, Code::kInvalidArgument, "store: wrong secret (XOE_SECRET)");
    flush(connection);
    return false;
  }
  connection.authenticated = true;
  --unauthenticated_;
  connection.deadline = Clock::time_point::max();
  if (remote_) {
    connection.sealer.emplace(std::move(connection.keys.send));
    connection.opener.emplace(std::move(connection.keys.receive));
  }
  append_value(connection.out, {});
  return true;
}

void StoreService::begin_world(int version, std::span<const WorldMember> members, std::optional<int> kept) {
  kept_ = kept;
  version_ = version;
  std::erase_if(values_, [this](const auto& entry) { return !version_of(entry.first) || has_passed(entry.first); });
  bytes_ = 0;
  for (const auto& [key, value] : values_) bytes_ += key.size() + value.size();
  values_.insert_or_assign(std::string(kWorldVersionKey), world_text(version, members));
  bytes_ += kWorldVersionKey.size() + values_.at(std::string(kWorldVersionKey)).size();
  for (const auto& [key, waiting] : std::exchange(waiters_, {})) {
    if (const auto value = find(key)) {
      wake(waiting, *value);
      continue;
    }
    if (version_of(key) && !has_passed(key)) {
      waiters_.emplace(key, waiting);
      continue;
    }
    for (const int fd : waiting) {
      Connection& connection = *connections_.at(fd);
      connection.waits_for.clear();
      append_passed(connection.out);
      resumed_.push_back(fd);
    }
  }
}

std::optional<std::string_view> StoreService::find(std::string_view key) const {
  if (const auto found = values_.find(key); found != values_.end()) return found->second;
  if (const auto version = version_of(key); version && *version <= version_ && !has_passed(key) && world_of(key) == key)
    return std::string_view();
  if (!key.starts_with(kWorldVersionKey) || key.size() <= kWorldVersionKey.size()) return std::nullopt;
  const auto version = parse_integer(key.substr(kWorldVersionKey.size() + 1));
  if (key[kWorldVersionKey.size()] != '/' || !version || *version < 1 || *version > version_) return std::nullopt;
  return std::string_view();
}

bool StoreService::has_passed(std::string_view key) const {
  const auto version = version_of(key);
  return version && *version < version_ && *version != kept_;
}

void StoreService::remove(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return;
  bytes_ -= found->first.size() + found->second.size();
  values_.erase(found);
}

void StoreService::note_ended(int rank, std::string_view how) {
  // The one key whose value changes; it belongs to the launcher.
  const std::string line = fmt::format("{} {}\n", rank, how);
  std::string& lines = values_[std::string(kEndedRanksKey)];
  bytes_ += line.size() + (lines.empty() ? kEndedRanksKey.size() : 0);
  lines += line;
}

void StoreService::note_failing(std::string_view key, std::string_view value) {
  const auto rank = parse_integer(key);
  const auto pid = parse_integer(value);
  if (rank && pid && std::in_range<int>(*rank) && std::in_range<pid_t>(*pid) && failing_.size() < limits_.keys)
    failing_.push_back({.rank = static_cast<int>(*rank), .pid = static_cast<pid_t>(*pid), .at = Clock::now()});
}

void StoreService::note_lost_peers(std::string_view key, std::string_view value, LostPeers told) {
  std::vector<std::string> words = words_of(value);
  words.insert(words.begin(), std::string(key));
  std::vector<int> numbers;
  for (const std::string& word : words) {
    const auto number = parse_integer(word);
    if (!number || !std::in_range<int>(*number)) return;
    numbers.push_back(static_cast<int>(*number));
  }
  if (numbers.size() <= 3 || lost_peers_.size() >= limits_.keys || lost_count_ + numbers.size() > limits_.lost_peers)
    return;
  lost_count_ += numbers.size();
  told.rank = numbers[0];
  told.pid = numbers[1];
  told.version = numbers[2];
  told.lost.assign(numbers.begin() + 3, numbers.end());
  lost_peers_.push_back(std::move(told));
}

// True for what is told to the launcher alone, again in each version of the world: it is no value that stays.
bool StoreService::take_message(std::string_view key, std::string_view value) {
  const auto slash = key.find('/');
  const auto kind = key.substr(0, slash);
  const bool unreachable = kind == kUnreachablePeersKey, silent = kind == kSilentPeersKey;
  if (slash == std::string_view::npos || (kind != kLostPeersKey && !unreachable && !silent)) return false;
  note_lost_peers(key.substr(slash + 1), value, {.unreachable = unreachable, .silent = silent});
  return true;
}

Status StoreService::set(std::string_view key, std::string_view value) {
  if (take_message(key, value)) return {};
  if (const auto found = values_.find(key); found != values_.end()) {
    if (found->second == value) return {};
    return failure(Code::kInvalidArgument, "store: key {} is already set to another value", key);
  }
  if (values_.size() >= limits_.keys || bytes_ + key.size() + value.size() > limits_.bytes)
    return failure(Code::kResourceExhausted, "store: full: {} keys, {} bytes", values_.size(), bytes_);
  values_.emplace(key, value);
  bytes_ += key.size() + value.size();
  if (const auto slash = key.find('/'); slash != std::string_view::npos && key.substr(0, slash) == kFailingRankKey)
    note_failing(key.substr(slash + 1), value);
  if (auto waiting = waiters_.extract(std::string(key)); !waiting.empty()) wake(waiting.mapped(), value);
  return {};
}

void StoreService::wake(const std::vector<int>& waiting, std::string_view value) {
  for (const int fd : waiting) {
    Connection& connection = *connections_.at(fd);
    connection.waits_for.clear();
    append_value(connection.out, value);
    resumed_.push_back(fd);
  }
}

bool StoreService::flush(Connection& connection) {
  if (connection.sealer) connection.sealer->seal(std::exchange(connection.out, {}), connection.sealed);
  std::string& out = connection.sealer ? connection.sealed : connection.out;
  while (!out.empty()) {
    const auto count = ::send(connection.socket.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    out.erase(0, static_cast<std::size_t>(count));
  }
  return true;
}

void StoreService::keep_or_drop(Connection& connection, bool keep) {
  if (!keep) return drop(connection.socket.get());
  std::uint32_t wanted = EPOLLRDHUP;
  if (may_answer(connection)) wanted |= EPOLLIN;
  if (!connection.out.empty() || !connection.sealed.empty()) wanted |= EPOLLOUT;
  if (wanted == connection.watched) return;
  connection.watched = wanted;
  epoll_event event{.events = wanted, .data = {.fd = connection.socket.get()}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), &event);
}

void StoreService::drop(int fd) {
  const auto found = connections_.find(fd);
  const Connection& connection = *found->second;
  if (const auto waiting = waiters_.find(connection.waits_for); waiting != waiters_.end()) {
    std::erase(waiting->second, fd);
    if (waiting->second.empty()) waiters_.erase(waiting);
  }
  if (!connection.authenticated) --unauthenticated_;
  connections_.erase(found);
}

void StoreService::drop_oldest_unauthenticated() {
  auto oldest = connections_.end();
  for (auto at = connections_.begin(); at != connections_.end(); ++at)
    if (!at->second->authenticated && (oldest == connections_.end() || at->second->deadline < oldest->second->deadline))
      oldest = at;
  if (oldest != connections_.end()) drop(oldest->first);
}

void StoreService::drop_expired() {
  const auto now = Clock::now();
  std::vector<int> expired;
  for (const auto& [fd, connection] : connections_)
    if (connection->deadline <= now) expired.push_back(fd);
  for (const int fd : expired) {
    // Data that arrived while the service was not called is not late.
    Connection& connection = *connections_.at(fd);
    keep_or_drop(connection, on_ready(connection, EPOLLIN) && connection.deadline > now);
  }
}

}  // namespace xoe::bootstrap

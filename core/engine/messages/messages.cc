#include "core/engine/messages/messages.h"

#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/backend/collective.h"
#include "core/base/error.h"
#include "core/bootstrap/proof.h"
#include "core/bootstrap/socket_address.h"
#include "core/engine/messages/ring_link.h"
#include "core/engine/messages/socket_link.h"
#include "core/engine/runtime/runtime.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kHeadBytes = 4096;  // of a box, and the least bytes of a ring
constexpr std::size_t kBoxBytes = std::size_t{4} << 20;
constexpr std::size_t kMostRingBytes = std::size_t{256} << 10;
constexpr auto kConnectTimeout = std::chrono::seconds(30);
constexpr std::size_t kMostBytes = std::size_t{1} << 62;
constexpr std::chrono::nanoseconds kLongestTimeout = std::chrono::years(10);
constexpr auto kCheckInterval = std::chrono::milliseconds(100);

// At the beginning of a rank's box; the rings follow, one for each sender.
struct BoxHead {
  std::atomic<std::uint64_t> pids;  // which name space `pid` is of
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t> closed;  // 1: this rank sends and receives no more
  std::atomic<std::int32_t> left;    // ranks, this one too, that do not look at the box any more
};

// Tells one name space of process numbers from another; 0: not known.
std::uint64_t own_name_space() {
  struct stat found {};
  return ::stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

BoxHead& head_of(const SharedBuffer& box) { return *reinterpret_cast<BoxHead*>(box.data()); }

std::string title_of(const Message& message) {
  if (message.is_send) return fmt::format("send to rank {}", message.peer);
  return message.peer == kAnyRank ? "receive from any rank" : fmt::format("receive from rank {}", message.peer);
}

bool ended(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

}  // namespace

Messages::Messages(std::shared_ptr<Runtime> runtime, const MessagesOptions& options)
    : runtime_(std::move(runtime)),
      rank_(runtime_->topology().rank),
      size_(runtime_->topology().size),
      options_(options),
      peers_(static_cast<std::size_t>(size_)),
      wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      matching_(size_) {
  const std::size_t share = kBoxBytes / static_cast<std::size_t>(size_) / kHeadBytes * kHeadBytes;
  capacity_ = std::clamp(share, kHeadBytes, kMostRingBytes) - sizeof(Ring);
}

Result<std::shared_ptr<Messages>> Messages::open(Engine& engine, const MessagesOptions& options) {
  std::shared_ptr<Messages> made(new Messages(engine.runtime(), options));
  XOE_TRY(made->share_rings(engine));
  const bool several_hosts =
      std::ranges::any_of(made->peers_, [](const Peer& peer) { return peer.box.data() == nullptr; });
  if (several_hosts) XOE_TRY(made->exchange_addresses(engine));
  if (several_hosts || options.progress_thread) XOE_TRY(made->start_thread());
  return made;
}

Messages::~Messages() { close(); }

Status Messages::share_rings(Engine& engine) {
  const std::string meeting = options_.name + ".rings";
  auto allocated = engine.shared_buffer(kHeadBytes + (capacity_ + sizeof(Ring)) * index(size_));
  if (!wakeup_.valid()) allocated = failure(Code::kResourceExhausted, "no eventfd: the limit of open files is reached");
  if (!allocated) {
    static_cast<void>(engine.map_peers(SharedBuffer(), meeting));  // the others shall not wait for this rank
    return failure(allocated.error());
  }
  SharedBuffer own = std::move(*allocated);
  own_box_ = own.data();
  auto* const head = new (own_box_) BoxHead();
  head->pids.store(own_name_space(), std::memory_order_relaxed);
  head->pid.store(::getpid(), std::memory_order_release);
  auto mapped = engine.map_peers(own, meeting);
  if (!mapped && mapped.error().code() == Code::kInvalidArgument) {  // on all ranks alike: none of them has a box
    own_box_ = nullptr;
    return failure(Code::kResourceExhausted, "{}: a rank has no memory for its messages: {}", options_.name,
                   mapped.error().message());
  }
  // Peers may write to it however this ends.
  const int peers = mapped ? static_cast<int>(std::ranges::count_if(
                                 *mapped, [](const SharedBuffer& box) { return box.data() != nullptr; }))
                           : size_;
  runtime_->keep(std::move(own), [peers](const SharedBuffer& box) {
    return head_of(box).left.load(std::memory_order_acquire) == peers;
  });
  XOE_ASSIGN(auto boxes, std::move(mapped));
  const auto ring = [this](std::byte* box, int from) -> Ring& {
    return *reinterpret_cast<Ring*>(box + kHeadBytes + (capacity_ + sizeof(Ring)) * index(from));
  };
  for (int r = 0; r < size_; ++r) {
    Peer& peer = peers_[index(r)];
    peer.box = std::move(boxes[index(r)]);
    if (peer.box.data() == nullptr) continue;
    peer.out = std::make_unique<RingLink>(ring(peer.box.data(), rank_), capacity_);
    peer.in = std::make_unique<RingLink>(ring(own_box_, r), capacity_);
    // Ranks in containers of their own cannot be looked at.
    const BoxHead& theirs = head_of(peer.box);
    const int pid = theirs.pid.load(std::memory_order_acquire);
    const std::uint64_t pids = theirs.pids.load(std::memory_order_relaxed);
    if (pid > 0 && pids != 0 && pids == own_name_space() && !ended(pid)) peer.pid = pid;
  }
  return {};
}

Status Messages::exchange_addresses(Engine& engine) {
  XOE_ASSIGN(const auto any, bootstrap::SocketAddress::tcp(options_.address, 0));
  XOE_ASSIGN(Fd listener, bootstrap::listen_at(any));
  acceptor_ = std::make_unique<bootstrap::MemberAcceptor>(
      std::move(listener), bootstrap::MemberPolicy{.secret = options_.secret,
                                                   .expects =
                                                       [this](std::uint32_t member, std::uint32_t lane) {
                                                         if (member >= static_cast<std::uint32_t>(size_) || lane != 0)
                                                           return false;
                                                         const Peer& peer = peers_[member];
                                                         const std::lock_guard lock(mutex_);
                                                         return !peer.address.empty() && !peer.in;
                                                       },
                                                   .admit =
                                                       [this](int member, int, bootstrap::MemberConnection connection) {
                                                         accept(member, std::move(connection));
                                                       }});
  const std::string& own = acceptor_->address();
  const std::int64_t shape[] = {static_cast<std::int64_t>(own.size())};
  const TensorArg text{.in = own.data(), .dtype = DType::kUint8, .shape = shape};
  XOE_ASSIGN(EngineHandle handle, engine.submit({.name = options_.name + ".addresses",
                                                 .op = {.kind = OpKind::kAllgather, .needs_all_ranks = true},
                                                 .tensors = {&text, 1}}));
  XOE_TRY(handle.wait());
  const char* all = static_cast<const char*>(handle.outputs().front().data);
  const std::lock_guard lock(mutex_);
  for (int r = 0; r < size_; ++r) {
    const auto length = static_cast<std::size_t>(handle.received_splits()[index(r)]);
    if (peers_[index(r)].box.data() == nullptr) peers_[index(r)].address.assign(all, length);
    all += length;
  }
  return {};
}

Status Messages::start_thread() {
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error&) {
    return failure(Code::kResourceExhausted, "cannot start a thread (limit of processes?)");
  }
  return {};
}

void Messages::close() {
  if (runtime_->forked()) {  // all but this memory is the parent's
    if (thread_.joinable()) new std::jthread(std::move(thread_));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    fail_all(failure(Code::kUnavailable, "messages were closed before it completed"));
    if (own_box_ != nullptr) reinterpret_cast<BoxHead*>(own_box_)->closed.store(1, std::memory_order_release);
  }
  if (thread_.joinable()) {
    thread_.request_stop();
    ::eventfd_write(wakeup_.get(), 1);
    thread_.join();
  }
  const std::lock_guard lock(mutex_);
  for (Peer& peer : peers_) {
    if (peer.box.data() != nullptr) {
      // The last time that this rank looks at the other's memory.
      peer.out.reset();
      peer.in.reset();
      head_of(std::exchange(peer.box, {})).left.fetch_add(1, std::memory_order_release);
      continue;
    }
    peer.out.reset();  // what was sent still arrives
    peer.in.reset();
  }
}

// --- posting ---

Result<MessagePtr> Messages::send(int to, std::uint64_t tag, const void* data, std::size_t bytes,
                                  std::chrono::nanoseconds timeout) {
  if (to < 0 || to >= size_) return failure(Code::kInvalidArgument, "there is no rank {} of {}", to, size_);
  return begin({.is_send = true,
                .peer = to,
                .tag = tag,
                .data = static_cast<std::byte*>(const_cast<void*>(data)),
                .bytes = bytes},
               timeout);
}

Result<MessagePtr> Messages::receive(int from, std::uint64_t tag, void* data, std::size_t bytes,
                                     std::chrono::nanoseconds timeout) {
  if ((from < 0 && from != kAnyRank) || from >= size_)
    return failure(Code::kInvalidArgument, "there is no rank {} of {}", from, size_);
  return begin({.peer = from, .tag = tag, .data = static_cast<std::byte*>(data), .bytes = bytes}, timeout);
}

Result<MessagePtr> Messages::begin(Message message, std::chrono::nanoseconds timeout) {
  XOE_TRY(runtime_->check_usable());
  if (message.bytes > kMostBytes)
    return failure(Code::kInvalidArgument, "a message of {} bytes; at most {} are possible", message.bytes, kMostBytes);
  if (timeout.count() == 0) timeout = runtime_->stall_limit();
  message.limit = std::min(timeout, kLongestTimeout);
  message.deadline = Clock::now() + message.limit;
  if (message.peer != kAnyRank) XOE_TRY(connect(message.peer, message.limit));
  const auto posted = std::make_shared<Message>(std::move(message));
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return failure(Code::kUnavailable, "messages were closed");
    XOE_TRY(state_);
    if (posted->is_send) {
      Peer& peer = peers_[index(posted->peer)];
      peer.queue.add(posted);
      peer.queue.push(*peer.out);
    } else {
      matching_.add(posted);
    }
    wakes = !posted->done && sleeps_;
    if (wakes) sleeps_ = false;
  }
  if (wakes) ::eventfd_write(wakeup_.get(), 1);
  return posted;
}

// Also before a receive: where nothing comes from a peer, only the connection to it tells that the peer has ended.
Status Messages::connect(int to, std::chrono::nanoseconds timeout) {
  Peer& peer = peers_[index(to)];
  const std::lock_guard turn(peer.connecting);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return failure(Code::kUnavailable, "messages were closed");
    if (peer.out) return {};
  }
  const auto longest = timeout.count() == 0 ? kConnectTimeout : std::min<Clock::duration>(timeout, kConnectTimeout);
  auto made = bootstrap::connect_member(
      {.self = rank_, .address = peer.address, .secret = options_.secret, .waits = false}, Clock::now() + longest);
  if (!made) {
    XOE_TRY(runtime_->check_world());  // knows better why
    return failure(made.error().code() == Code::kTimeout ? Code::kTimeout : Code::kPeerLost,
                   "cannot connect to rank {} at {}: {}", to, peer.address, made.error().message());
  }
  const std::lock_guard lock(mutex_);
  if (closed_) return failure(Code::kUnavailable, "messages were closed");
  peer.out = std::make_unique<SocketLink>(std::move(*made), options_.encrypt);
  return {};
}

void Messages::accept(int member, bootstrap::MemberConnection connection) {
  auto link = std::make_unique<SocketLink>(std::move(connection), options_.encrypt);
  const std::lock_guard lock(mutex_);
  if (!closed_) peers_[index(member)].in = std::move(link);
}

// --- progress ---

// REQUIRES: mutex_.
bool Messages::progress() {
  if (!state_) return false;
  try {
    return move_bytes();
  } catch (const std::bad_alloc&) {
    fail_all(failure(Code::kResourceExhausted, "no memory for a message that another receive must wait for"));
    return false;
  }
}

// REQUIRES: mutex_.
bool Messages::move_bytes() {
  bool moved = false;
  const int first = matching_.turn();
  for (int i = 0; i < size_; ++i) {
    const int r = (first + i) % size_;
    Peer& peer = peers_[index(r)];
    if (!peer.queue.empty() && peer.out) moved |= peer.queue.push(*peer.out);
    if (peer.in) moved |= matching_.pull(r, *peer.in);
  }
  return moved;
}

// REQUIRES: mutex_.
bool Messages::idle() const {
  return matching_.empty() && std::ranges::all_of(peers_, [](const Peer& peer) { return peer.queue.empty(); });
}

// What poll() shall wait for; returns for how long, in milliseconds: rings have nothing to poll. REQUIRES: mutex_.
int Messages::add_sockets(std::vector<pollfd>& entries) const {
  int timeout = 100;
  for (int r = 0; r < size_; ++r) {
    const Peer& peer = peers_[index(r)];
    const bool receives = matching_.wants(r);
    if (peer.box.data() != nullptr) {
      if (receives || !peer.queue.empty()) timeout = 1;
      continue;
    }
    if (receives && peer.in && !peer.in->closed())
      entries.push_back({.fd = peer.in->descriptor(), .events = POLLIN, .revents = 0});
    if (!peer.queue.empty() && peer.out && !peer.out->closed())
      entries.push_back({.fd = peer.out->descriptor(), .events = POLLOUT, .revents = 0});
  }
  return timeout;
}

void Messages::run(const std::stop_token& stop) {
  constexpr int kShort = 8;  // milliseconds that a new message may wait for this thread
  int pause = 1;             // milliseconds; grows while nothing moves
  bool moved = false;
  while (!stop.stop_requested()) {
    std::vector<pollfd> entries{{.fd = wakeup_.get(), .events = POLLIN, .revents = 0}};
    if (acceptor_) acceptor_->add_entries(entries);
    const std::size_t accepting = entries.size() - 1;
    int timeout = -1;
    bool works = false;
    {
      const std::lock_guard lock(mutex_);
      works = options_.progress_thread && !idle();
      const bool attended = waiters_ > 0;  // a thread that waits makes progress itself
      if (works && moved) {
        timeout = 0;
      } else if (works) {
        timeout = attended ? 20 : std::max(add_sockets(entries), pause);
      }
      sleeps_ = timeout < 0 || (timeout > kShort && !attended);
    }
    if (acceptor_ && acceptor_->waits()) timeout = timeout < 0 ? 200 : timeout;
    ::poll(entries.data(), entries.size(), timeout);
    eventfd_t ignored = 0;
    ::eventfd_read(wakeup_.get(), &ignored);
    if (acceptor_) acceptor_->serve(std::span(entries).subspan(1, accepting));
    {
      const std::lock_guard lock(mutex_);
      moved = works && progress();
    }
    pause = moved ? 1 : std::min(2 * pause, kShort);
  }
}

Result<bool> Messages::wait(const MessagePtr& message, std::chrono::nanoseconds timeout) {
  constexpr int kSpins = 200;
  constexpr auto kYields = std::chrono::milliseconds(2);
  struct Waiter {
    std::atomic<int>& count;
    explicit Waiter(std::atomic<int>& waiters) : count(waiters) { count.fetch_add(1); }
    Waiter(const Waiter&) = delete;
    ~Waiter() { count.fetch_sub(1); }
  };
  if (runtime_->forked()) XOE_TRY(runtime_->check_usable());
  const auto start = Clock::now();
  const Waiter waiter(waiters_);
  for (int turn = 0;; ++turn) {
    bool checks = false, late = false;
    {
      const std::lock_guard lock(mutex_);
      progress();
      if (message->done) {
        XOE_TRY(message->result);
        return true;
      }
      if (turn < kSpins && timeout.count() > 0) continue;
      const auto now = Clock::now();
      late = message->limit.count() > 0 && now >= message->deadline;
      if (late) {
        drop(message);
        message->finish(failure(Code::kTimeout,
                                "{}: Timed out after {:g} s; does that rank get to its part? (Without a limit of its "
                                "own, a message has that of XOE_STALL_LIMIT.)",
                                title_of(*message), std::chrono::duration<double>(message->limit).count()));
      }
      checks = now >= next_check_;
      if (checks) next_check_ = now + kCheckInterval;
    }
    if (late) continue;
    if (checks) check_failures();
    const auto waited = Clock::now() - start;
    if (waited >= timeout && !checks) return false;
    if (waited < kYields) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

void Messages::check_failures() {
  const Status world = runtime_->check_world();
  const std::lock_guard lock(mutex_);
  std::vector<Status> gone;
  for (const Peer& peer : peers_) {
    if (peer.out) peer.out->look();
  }
  for (int r = 0; r < size_; ++r) gone.push_back(why_gone(r, peers_[index(r)]));
  progress();  // what was sent before counts
  if (!world) fail_all(world);
  for (int r = 0; r < size_; ++r) {
    if (gone[index(r)]) continue;
    matching_.fail(r, gone[index(r)]);
    peers_[index(r)].queue.fail(gone[index(r)]);
  }
}

// REQUIRES: mutex_.
Status Messages::why_gone(int rank, const Peer& peer) const {
  if (peer.box.data() != nullptr) {
    if (peer.pid != 0 && ended(peer.pid)) return failure(Code::kPeerLost, "rank {} (pid {}) has ended", rank, peer.pid);
    if (head_of(peer.box).closed.load(std::memory_order_acquire) == 0) return {};
  } else {
    for (const auto& link : {std::cref(peer.in), std::cref(peer.out)}) {
      if (!link.get() || !link.get()->closed()) continue;
      const std::string_view reason = link.get()->reason();
      if (!reason.empty()) return failure(Code::kPeerLost, "the connection to rank {} broke: {}", rank, reason);
      return failure(Code::kPeerLost, "rank {} has ended, or sends and receives no more", rank);
    }
    return {};
  }
  return failure(Code::kPeerLost, "rank {} has ended, or sends and receives no more", rank);
}

// REQUIRES: mutex_.
void Messages::fail_all(const Status& why) {
  if (state_) state_ = why;
  matching_.fail_any(why);
  for (int r = 0; r < size_; ++r) {
    matching_.fail(r, why);
    peers_[index(r)].queue.fail(why);
  }
}

// Nothing touches the message's memory afterwards. REQUIRES: mutex_.
void Messages::drop(const MessagePtr& message) {
  if (message->done) return;
  try {
    if (message->is_send) {
      peers_[index(message->peer)].queue.give_up(message);
    } else {
      matching_.forget(message);
    }
  } catch (const std::bad_alloc&) {
    fail_all(failure(Code::kResourceExhausted, "no memory for the rest of a message that was given up"));
  }
}

void Messages::abandon(const MessagePtr& message) {
  if (runtime_->forked()) return;
  const std::lock_guard lock(mutex_);
  drop(message);
}

int Messages::source(const MessagePtr& message) const {
  if (runtime_->forked()) return message->peer;
  const std::lock_guard lock(mutex_);
  return message->peer;
}

}  // namespace xoe::engine

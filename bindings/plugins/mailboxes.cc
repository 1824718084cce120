#include "mailboxes.h"

#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>

namespace xoe::plugins {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLine = 64;
constexpr std::size_t kBoxBytes = std::size_t{4} << 20;
constexpr std::size_t kMostRingBytes = std::size_t{256} << 10;

struct Header {
  std::uint64_t context;
  std::uint64_t bytes;
};

struct BoxHead {
  std::atomic<std::uint64_t> pids;  // which name space `pid` is of
  std::atomic<std::int32_t> pid;
};

// Tells one name space of process numbers from another; 0: not known.
std::uint64_t own_name_space() {
  struct stat found {};
  return ::stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

// Seconds, as the engine reads it; a wrong value is the engine's to complain about.
double stall_limit() {
  constexpr double kDefault = 600;
  const char* const text = std::getenv("XOE_STALL_LIMIT");
  if (text == nullptr) return kDefault;
  double seconds = 0;
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), seconds);
  return error == std::errc() && end == all.data() + all.size() && seconds >= 0 ? seconds : kDefault;
}

}  // namespace

// Positions only grow. The writer publishes bytes by `written`, the reader gives them back by `read`.
struct Mailboxes::Ring {
  alignas(kLine) std::atomic<std::uint64_t> written;
  alignas(kLine) std::atomic<std::uint64_t> read;

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this) + sizeof(Ring); }
};

struct Mailboxes::Message {
  int peer = 0;
  std::uint64_t context = 0;
  std::byte* data = nullptr;  // not written to by a send
  std::size_t bytes = 0;
  std::size_t moved = 0;  // of a send: with its header
  bool done = false;
  std::string failure;
  std::vector<std::byte> copy;  // of an abandoned send

  // Of what was kept.
  void take(const std::vector<std::byte>& kept) {
    done = true;
    if (kept.size() != bytes) {
      failure =
          "a message of " + std::to_string(kept.size()) + " bytes where " + std::to_string(bytes) + " were expected";
    } else if (bytes > 0) {
      std::memcpy(data, kept.data(), bytes);
    }
  }
};

// A message that is arriving from a sender, and those that arrived before they were expected.
struct Mailboxes::Incoming {
  Header header{};
  std::size_t got = 0;  // of header and bytes
  Request into;         // null: kept until it is expected
  std::vector<std::byte> kept;
  std::list<std::pair<std::uint64_t, std::vector<std::byte>>> waiting;  // by context
};

Mailboxes::Mailboxes(int rank, int size)
    : rank_(rank),
      size_(size),
      boxes_(static_cast<std::size_t>(size)),
      buffers_(static_cast<std::size_t>(size) + 1),
      pids_(static_cast<std::size_t>(size)),
      outgoing_(static_cast<std::size_t>(size)),
      expected_(static_cast<std::size_t>(size)),
      incoming_(static_cast<std::size_t>(size)) {
  const std::size_t share = kBoxBytes / static_cast<std::size_t>(size) / kPage * kPage;
  capacity_ = std::clamp(share, kPage, kMostRingBytes) - sizeof(Ring);
  limit_ = stall_limit();
}

Mailboxes::~Mailboxes() {
  for (xoe_buffer* buffer : buffers_) xoe_buffer_free(buffer);
}

std::unique_ptr<Mailboxes> Mailboxes::open(xoe_engine* engine, int rank, int size) {
  std::unique_ptr<Mailboxes> made(new Mailboxes(rank, size));
  const std::size_t bytes = kPage + (made->capacity_ + sizeof(Ring)) * static_cast<std::size_t>(size);
  void* own = nullptr;
  xoe_buffer*& mine = made->buffers_[static_cast<std::size_t>(size)];
  if (xoe_buffer_allocate(engine, bytes, &mine, &own) != XOE_OK) return nullptr;
  auto* const head = new (own) BoxHead();
  head->pids.store(own_name_space(), std::memory_order_relaxed);
  head->pid.store(::getpid(), std::memory_order_release);
  std::vector<void*> data(static_cast<std::size_t>(size));
  if (xoe_buffer_map_peers(engine, "xoe.mailboxes", mine, made->buffers_.data(), data.data(), data.size()) != XOE_OK)
    return nullptr;
  for (std::size_t r = 0; r < data.size(); ++r) {
    made->boxes_[r] = static_cast<std::byte*>(data[r]);
    if (data[r] == nullptr) continue;
    // Ranks in containers of their own cannot be looked at.
    const auto& box = *static_cast<BoxHead*>(data[r]);
    const int pid = box.pid.load(std::memory_order_acquire);
    const std::uint64_t pids = box.pids.load(std::memory_order_relaxed);
    if (pid > 0 && pids != 0 && pids == own_name_space() && (::kill(pid, 0) == 0 || errno == EPERM))
      made->pids_[r] = pid;
  }
  return made;
}

Mailboxes::Ring& Mailboxes::ring(int of, int from) const {
  std::byte* const box = boxes_[static_cast<std::size_t>(of)] + kPage;
  return *reinterpret_cast<Ring*>(box + (capacity_ + sizeof(Ring)) * static_cast<std::size_t>(from));
}

Mailboxes::Request Mailboxes::send(int to, std::uint64_t context, const void* data, std::size_t bytes) {
  auto message = std::make_shared<Message>();
  message->peer = to;
  message->context = context;
  message->data = static_cast<std::byte*>(const_cast<void*>(data));
  message->bytes = bytes;
  const std::lock_guard lock(mutex_);
  outgoing_[static_cast<std::size_t>(to)].push_back(message);
  push(to);
  return message;
}

Mailboxes::Request Mailboxes::receive(int from, std::uint64_t context, void* data, std::size_t bytes) {
  auto message = std::make_shared<Message>();
  message->peer = from;
  message->context = context;
  message->data = static_cast<std::byte*>(data);
  message->bytes = bytes;
  const std::lock_guard lock(mutex_);
  Incoming& incoming = incoming_[static_cast<std::size_t>(from)];
  const auto kept = std::ranges::find(incoming.waiting, context, [](const auto& one) { return one.first; });
  if (kept == incoming.waiting.end()) {
    expected_[static_cast<std::size_t>(from)].push_back(message);
  } else {
    message->take(kept->second);
    incoming.waiting.erase(kept);
  }
  return message;
}

std::string Mailboxes::wait(const Request& request) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLook = std::chrono::milliseconds(100);
  const auto start = Clock::now();
  auto next_look = start + kLook;
  for (int idle = 0;; ++idle) {
    {
      const std::lock_guard lock(mutex_);
      progress();
      if (request->done) return request->failure;
    }
    if (idle < 200) continue;
    ::sched_yield();
    const auto now = Clock::now();
    if (now < next_look) {
      if (now - start > std::chrono::milliseconds(2)) std::this_thread::sleep_for(std::chrono::microseconds(100));
      continue;
    }
    next_look = now + kLook;
    const bool late = limit_ > 0 && std::chrono::duration<double>(now - start).count() > limit_;
    if (!late && alive(request->peer)) continue;
    const std::lock_guard lock(mutex_);
    progress();  // what it sent before it died counts
    if (request->done) return request->failure;
    forget(request);
    const std::string peer = "rank " + std::to_string(request->peer);
    return late ? "no message of " + peer + " within XOE_STALL_LIMIT"
                : peer + " (pid " + std::to_string(pids_[static_cast<std::size_t>(request->peer)]) + ") has ended";
  }
}

void Mailboxes::abandon(const Request& request) {
  const std::lock_guard lock(mutex_);
  if (!request->done) forget(request);
}

// REQUIRES: mutex_ is locked.
void Mailboxes::forget(const Request& request) {
  const auto peer = static_cast<std::size_t>(request->peer);
  if (std::ranges::find(outgoing_[peer], request) != outgoing_[peer].end()) {
    request->copy.assign(request->data, request->data + request->bytes);
    request->data = request->copy.data();
    return;
  }
  std::erase(expected_[peer], request);
  Incoming& incoming = incoming_[peer];
  if (incoming.into != request) return;
  incoming.kept.resize(incoming.header.bytes);
  incoming.into = nullptr;
}

bool Mailboxes::alive(int rank) const {
  const int pid = pids_[static_cast<std::size_t>(rank)];
  return pid == 0 || ::kill(pid, 0) == 0 || errno == EPERM;
}

void Mailboxes::progress() {
  for (int peer = 0; peer < size_; ++peer) {
    if (!outgoing_[static_cast<std::size_t>(peer)].empty()) push(peer);
    if (reaches(peer)) pull(peer);
  }
}

// As much as there is room for.
void Mailboxes::push(int to) {
  auto& queue = outgoing_[static_cast<std::size_t>(to)];
  Ring& into = ring(to, rank_);
  while (!queue.empty()) {
    Message& message = *queue.front();
    const Header header{message.context, message.bytes};
    const std::size_t all = sizeof(Header) + message.bytes;
    std::uint64_t written = into.written.load(std::memory_order_relaxed);
    std::size_t room = capacity_ - static_cast<std::size_t>(written - into.read.load(std::memory_order_acquire));
    while (room > 0 && message.moved < all) {
      const bool in_header = message.moved < sizeof(Header);
      const std::byte* const from = in_header ? reinterpret_cast<const std::byte*>(&header) + message.moved
                                              : message.data + (message.moved - sizeof(Header));
      const std::size_t left = (in_header ? sizeof(Header) : all) - message.moved;
      const auto at = static_cast<std::size_t>(written % capacity_);
      const std::size_t part = std::min({left, room, capacity_ - at});
      std::memcpy(into.bytes() + at, from, part);
      message.moved += part;
      written += part;
      room -= part;
    }
    into.written.store(written, std::memory_order_release);
    if (message.moved < all) return;
    message.done = true;
    queue.pop_front();
  }
}

// All that has arrived.
void Mailboxes::pull(int from) {
  Ring& own = ring(rank_, from);
  Incoming& incoming = incoming_[static_cast<std::size_t>(from)];
  std::uint64_t read = own.read.load(std::memory_order_relaxed);
  std::size_t there = static_cast<std::size_t>(own.written.load(std::memory_order_acquire) - read);
  while (there > 0) {
    const bool in_header = incoming.got < sizeof(Header);
    std::byte* to = reinterpret_cast<std::byte*>(&incoming.header) + incoming.got;
    if (!in_header) {
      std::byte* const start = incoming.into ? incoming.into->data : incoming.kept.data();
      to = start + (incoming.got - sizeof(Header));
    }
    const std::size_t left = (in_header ? sizeof(Header) : sizeof(Header) + incoming.header.bytes) - incoming.got;
    const auto at = static_cast<std::size_t>(read % capacity_);
    const std::size_t part = std::min({left, there, capacity_ - at});
    if (part > 0) std::memcpy(to, own.bytes() + at, part);
    incoming.got += part;
    read += part;
    there -= part;
    if (in_header && incoming.got == sizeof(Header)) begin(from, incoming);
    if (incoming.got >= sizeof(Header) && incoming.got == sizeof(Header) + incoming.header.bytes) end(from, incoming);
  }
  own.read.store(read, std::memory_order_release);
}

void Mailboxes::begin(int from, Incoming& incoming) {
  auto& list = expected_[static_cast<std::size_t>(from)];
  const auto found = std::ranges::find(list, incoming.header.context, [](const Request& one) { return one->context; });
  if (found != list.end() && (*found)->bytes == incoming.header.bytes) {
    incoming.into = *found;
    list.erase(found);
  } else {
    incoming.kept.resize(incoming.header.bytes);
  }
}

void Mailboxes::end(int from, Incoming& incoming) {
  auto& list = expected_[static_cast<std::size_t>(from)];
  if (incoming.into) {
    incoming.into->done = true;
  } else {
    // It may have become expected while it arrived.
    const auto found =
        std::ranges::find(list, incoming.header.context, [](const Request& one) { return one->context; });
    if (found != list.end()) {
      (*found)->take(incoming.kept);
      list.erase(found);
    } else {
      incoming.waiting.emplace_back(incoming.header.context, std::move(incoming.kept));
    }
  }
  incoming.into = nullptr;
  incoming.kept = {};
  incoming.got = 0;
}

}  // namespace xoe::plugins

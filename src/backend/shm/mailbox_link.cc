// Mailboxes: a ring of bytes for each pair of hosts, in the memory of the receiving leader.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>

#include "backend/shm/mailbox_link.h"
#include "base/error.h"

namespace xoe::shm {
namespace {

constexpr std::size_t kRing = std::size_t{64} << 10;

struct Mailbox {
  alignas(64) std::atomic<std::uint64_t> written;  // bytes, by the sender
  alignas(64) std::atomic<std::uint64_t> read;     // bytes, by the receiver
  alignas(64) std::byte ring[kRing];
};

void copy_in(Mailbox& box, std::uint64_t at, const std::byte* from, std::size_t bytes) {
  const std::size_t first = std::min(bytes, kRing - at % kRing);
  std::memcpy(box.ring + at % kRing, from, first);
  std::memcpy(box.ring, from + first, bytes - first);
}

void copy_out(const Mailbox& box, std::uint64_t at, std::byte* to, std::size_t bytes) {
  const std::size_t first = std::min(bytes, kRing - at % kRing);
  std::memcpy(to, box.ring + at % kRing, first);
  std::memcpy(to + first, box.ring, bytes - first);
}

class MailboxLink final : public HostLink {
 public:
  // outgoing, incoming: by host; this host's own are not used.
  MailboxLink(std::vector<Mailbox*> outgoing, std::vector<Mailbox*> incoming, int host)
      : outgoing_(std::move(outgoing)), incoming_(std::move(incoming)), host_(host) {
    pending_.resize(outgoing_.size());
    partial_.resize(incoming_.size());
  }

  // A message is its length in 4 bytes, and its bytes.
  void send(int to_host, std::vector<std::byte> message) override {
    auto& queue = pending_[static_cast<std::size_t>(to_host)];
    const auto length = static_cast<std::uint32_t>(message.size());
    const auto* bytes = reinterpret_cast<const std::byte*>(&length);
    queue.insert(queue.end(), bytes, bytes + sizeof length);
    queue.insert(queue.end(), message.begin(), message.end());
  }

  bool pump() override {
    bool moved = false;
    for (std::size_t to = 0; to < pending_.size(); ++to) {
      auto& queue = pending_[to];
      if (queue.empty()) continue;
      Mailbox& box = *outgoing_[to];
      const std::uint64_t written = box.written.load(std::memory_order_relaxed);
      const std::size_t room = kRing - static_cast<std::size_t>(written - box.read.load(std::memory_order_acquire));
      const std::size_t bytes = std::min(room, queue.size());
      if (bytes == 0) continue;
      copy_in(box, written, queue.data(), bytes);
      box.written.store(written + bytes, std::memory_order_release);
      queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(bytes));
      moved = true;
    }
    return moved;
  }

  std::optional<Incoming> receive() override {
    for (std::size_t from = 0; from < incoming_.size(); ++from) {
      if (static_cast<int>(from) == host_) continue;
      auto& partial = partial_[from];
      take(*incoming_[from], partial);
      std::uint32_t length = 0;
      if (partial.size() < sizeof length) continue;
      std::memcpy(&length, partial.data(), sizeof length);
      if (partial.size() < sizeof length + length) continue;
      const auto begin = partial.begin() + sizeof length;
      Incoming incoming{static_cast<int>(from), {begin, begin + length}};
      partial.erase(partial.begin(), begin + length);
      return incoming;
    }
    return std::nullopt;
  }

 private:
  static void take(Mailbox& box, std::vector<std::byte>& to) {
    const std::uint64_t read = box.read.load(std::memory_order_relaxed);
    const auto bytes = static_cast<std::size_t>(box.written.load(std::memory_order_acquire) - read);
    if (bytes == 0) return;
    const std::size_t before = to.size();
    to.resize(before + bytes);
    copy_out(box, read, to.data() + before, bytes);
    box.read.store(read + bytes, std::memory_order_release);
  }

  std::vector<Mailbox*> outgoing_, incoming_;
  int host_;
  std::vector<std::vector<std::byte>> pending_;  // by host
  std::vector<std::vector<std::byte>> partial_;
};

}  // namespace

std::size_t mailbox_bytes(std::size_t hosts) noexcept { return hosts * sizeof(Mailbox); }

std::unique_ptr<HostLink> make_mailbox_link(const std::vector<std::byte*>& memory, int host) {
  const auto boxes = [&](std::size_t of) { return reinterpret_cast<Mailbox*>(memory[of]); };
  const auto me = static_cast<std::size_t>(host);
  std::vector<Mailbox*> outgoing, incoming;
  for (std::size_t other = 0; other < memory.size(); ++other) {
    outgoing.push_back(boxes(other) + me);
    incoming.push_back(boxes(me) + other);
  }
  return std::make_unique<MailboxLink>(std::move(outgoing), std::move(incoming), host);
}

}  // namespace xoe::shm

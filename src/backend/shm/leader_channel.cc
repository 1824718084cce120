#include "backend/shm/leader_channel.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace xoe::shm {
namespace {

constexpr std::size_t kRingBytes = std::size_t{64} << 10;

// From one leader to another, in the memory of the receiver.
//
// Invariants: one thread sends and one receives. `written` and `read` never decrease; read <= written <= read +
// kRingBytes. The sender alone stores `written`, after the bytes below it; the receiver alone stores `read`, after it
// has copied the bytes below it.
struct ByteRing {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::byte bytes[kRingBytes];
};

void copy_in(ByteRing& ring, std::uint64_t at, const std::byte* from, std::size_t bytes) {
  const std::size_t first = std::min(bytes, kRingBytes - at % kRingBytes);
  std::memcpy(ring.bytes + at % kRingBytes, from, first);
  std::memcpy(ring.bytes, from + first, bytes - first);
}

void copy_out(const ByteRing& ring, std::uint64_t at, std::byte* to, std::size_t bytes) {
  const std::size_t first = std::min(bytes, kRingBytes - at % kRingBytes);
  std::memcpy(to, ring.bytes + at % kRingBytes, first);
  std::memcpy(to + first, ring.bytes, bytes - first);
}

class ShmLeaderChannel final : public LeaderChannel {
 public:
  // outgoing, incoming: by host; this host's own entries are not used.
  ShmLeaderChannel(std::vector<ByteRing*> outgoing, std::vector<ByteRing*> incoming, int host)
      : outgoing_(std::move(outgoing)), incoming_(std::move(incoming)), host_(host) {
    pending_.resize(outgoing_.size());
    partial_.resize(incoming_.size());
  }

  // A message is sent as its length in 4 bytes and its bytes.
  void send(int to_host, std::vector<std::byte> message) override {
    auto& queue = pending_[static_cast<std::size_t>(to_host)];
    const auto length = static_cast<std::uint32_t>(message.size());
    const auto* bytes = reinterpret_cast<const std::byte*>(&length);
    queue.insert(queue.end(), bytes, bytes + sizeof length);
    queue.insert(queue.end(), message.begin(), message.end());
  }

  bool progress() override {
    bool moved = false;
    for (std::size_t to = 0; to < pending_.size(); ++to) {
      auto& queue = pending_[to];
      if (queue.empty()) continue;
      ByteRing& ring = *outgoing_[to];
      const std::uint64_t written = ring.written.load(std::memory_order_relaxed);
      const std::size_t room =
          kRingBytes - static_cast<std::size_t>(written - ring.read.load(std::memory_order_acquire));
      const std::size_t bytes = std::min(room, queue.size());
      if (bytes == 0) continue;
      copy_in(ring, written, queue.data(), bytes);
      ring.written.store(written + bytes, std::memory_order_release);
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
  static void take(ByteRing& ring, std::vector<std::byte>& to) {
    const std::uint64_t read = ring.read.load(std::memory_order_relaxed);
    const auto bytes = static_cast<std::size_t>(ring.written.load(std::memory_order_acquire) - read);
    if (bytes == 0) return;
    const std::size_t before = to.size();
    to.resize(before + bytes);
    copy_out(ring, read, to.data() + before, bytes);
    ring.read.store(read + bytes, std::memory_order_release);
  }

  std::vector<ByteRing*> outgoing_, incoming_;
  int host_;
  std::vector<std::vector<std::byte>> pending_;  // by host
  std::vector<std::vector<std::byte>> partial_;
};

}  // namespace

std::size_t leader_channel_bytes(std::size_t hosts) noexcept { return hosts * sizeof(ByteRing); }

std::unique_ptr<LeaderChannel> make_leader_channel(const std::vector<std::byte*>& memory, int host) {
  const auto rings = [&](std::size_t of) { return reinterpret_cast<ByteRing*>(memory[of]); };
  const auto me = static_cast<std::size_t>(host);
  std::vector<ByteRing*> outgoing, incoming;
  for (std::size_t other = 0; other < memory.size(); ++other) {
    outgoing.push_back(rings(other) + me);
    incoming.push_back(rings(me) + other);
  }
  return std::make_unique<ShmLeaderChannel>(std::move(outgoing), std::move(incoming), host);
}

}  // namespace xoe::shm

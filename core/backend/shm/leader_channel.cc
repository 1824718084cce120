#include "core/backend/shm/leader_channel.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "core/backend/collective.h"
#include "core/base/bytes.h"

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

class ShmLeaderChannel final : public LeaderChannel {
 public:
  // outgoing, incoming: by host; this host's own entries are not used.
  ShmLeaderChannel(std::vector<ByteRing*> outgoing, std::vector<ByteRing*> incoming, int host)
      : outgoing_(std::move(outgoing)), incoming_(std::move(incoming)), host_(host) {
    pending_.resize(outgoing_.size());
    arrived_.resize(incoming_.size());
  }

  void send(int to_host, std::vector<std::byte> message) override {
    std::string& queue = pending_[index(to_host)];
    append_little(queue, static_cast<std::uint32_t>(message.size()));
    queue.append(reinterpret_cast<const char*>(message.data()), message.size());
  }

  bool progress() override {
    bool moved = std::exchange(made_room_, false);
    for (std::size_t to = 0; to < pending_.size(); ++to) {
      auto& queue = pending_[to];
      if (queue.empty()) continue;
      ByteRing& ring = *outgoing_[to];
      const std::uint64_t written = ring.written.load(std::memory_order_relaxed);
      const std::size_t room =
          kRingBytes - static_cast<std::size_t>(written - ring.read.load(std::memory_order_acquire));
      const std::size_t bytes = std::min(room, queue.size());
      if (bytes == 0) continue;
      const std::size_t first = std::min(bytes, kRingBytes - written % kRingBytes);
      std::memcpy(ring.bytes + written % kRingBytes, queue.data(), first);
      std::memcpy(ring.bytes, queue.data() + first, bytes - first);
      ring.written.store(written + bytes, std::memory_order_release);
      queue.erase(0, bytes);
      moved = true;
    }
    return moved;
  }

  std::optional<Incoming> receive() override {
    for (std::size_t from = 0; from < incoming_.size(); ++from) {
      if (static_cast<int>(from) == host_) continue;
      take(*incoming_[from], arrived_[from]);
      const auto body = arrived_[from].next(std::numeric_limits<std::uint32_t>::max());
      if (!body) continue;
      const auto* const bytes = reinterpret_cast<const std::byte*>(body->data());
      return Incoming{static_cast<int>(from), {bytes, bytes + body->size()}};
    }
    return std::nullopt;
  }

 private:
  void take(ByteRing& ring, FrameBuffer& to) {
    const std::uint64_t read = ring.read.load(std::memory_order_relaxed);
    const auto bytes = static_cast<std::size_t>(ring.written.load(std::memory_order_acquire) - read);
    if (bytes == 0) return;
    const auto* const begin = reinterpret_cast<const char*>(ring.bytes);
    const std::size_t first = std::min(bytes, kRingBytes - read % kRingBytes);
    to.append({begin + read % kRingBytes, first});
    to.append({begin, bytes - first});
    ring.read.store(read + bytes, std::memory_order_release);
    made_room_ = true;
  }

  std::vector<ByteRing*> outgoing_, incoming_;
  int host_;
  bool made_room_ = false;            // bytes were taken, for whose place a sender may wait
  std::vector<std::string> pending_;  // by host
  std::vector<FrameBuffer> arrived_;  // by host
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

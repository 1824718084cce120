// All-to-all connections among the members of a net, through Gloo, and how members learn that one of them has gone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "core/backend/gloo/sealed_relay.h"
#include "core/backend/net/net.h"
#include "core/bootstrap/mesh_handshake.h"
#include "xoe/status.h"

namespace xoe::gloo {

using net::Clock;

// Messages of one channel with one peer complete in the order in which they were posted.
enum Channel : int { kFirstChannel, kSecondChannel, kChannels };

struct MeshOptions {
  bootstrap::ConnectOptions connection = {};  // the address, and who is warned
  bool encrypt = false;                       // the same for all members
};

// Gloo moves the bytes; its device's thread moves those that a call cannot move at once. When a connection breaks, Gloo
// wakes only some of the threads that wait for the peer, and its timeouts break all connections without a reason. So
// one thread of the mesh waits for broken connections and another for the deadline; they wake the threads that wait,
// and the last message of a member is the reason why it closes. It has connections of its own, because the connections
// for data are stuck after a collective was given up.
class Mesh {
 public:
  // Collective, within the deadline. device: of make_device().
  static Result<std::unique_ptr<Mesh>> connect(const std::shared_ptr<::gloo::transport::Device>& device,
                                               MeshOptions options, const net::Members& members,
                                               const net::Exchange& exchange, Clock::time_point deadline);
  ~Mesh();

  int self() const noexcept { return members_.self; }
  int size() const noexcept { return static_cast<int>(members_.ranks.size()); }

  // One thread may call send() to wait_received() between enter() and leave(). leave() must follow also where enter()
  // fails, as it does after the first failure. When leave() fails, no posted buffer is in use any more.
  Status enter(Clock::time_point deadline);
  // The error begins with the title of the operation that first failed: "allreduce (loss): ".
  Status leave(Status outcome, std::string_view title);

  // Both sides pass the same slot and number of bytes. Receives are best posted first.
  Status send(int peer, Channel channel, std::uint64_t slot, const void* data, std::size_t bytes);
  Status receive(int peer, Channel channel, std::uint64_t slot, void* data, std::size_t bytes);
  // Wait for the next message of this channel.
  Status wait_sent(int peer, Channel channel) { return wait(peer, channel, false); }
  Status wait_received(int peer, Channel channel) { return wait(peer, channel, true); }

  // Any thread.
  void abort() noexcept;

 private:
  using Context = ::gloo::transport::Context;
  using Buffer = ::gloo::transport::UnboundBuffer;

  struct Peer {
    std::unique_ptr<Buffer> channels[kChannels];
    bool gone = false;
  };

  Mesh(std::shared_ptr<::gloo::transport::Device> device, net::Members members, std::unique_ptr<SealedRelay> relay,
       std::shared_ptr<Context> data, std::shared_ptr<Context> control);

  void open_channels(Context& context);
  Status handshake(Clock::time_point deadline);
  Status wait(int peer, Channel channel, bool received);
  Status broken(int peer, const char* what);
  void release_buffers();
  std::unique_lock<std::mutex> locked() const { return std::unique_lock(mutex_); }
  int job_rank(int member) const { return members_.ranks[index(member)]; }
  Peer& peer_at(int member) { return peers_[index(member)]; }

  // With the mutex held:
  void post_liveness();
  void read_close_notice(int member);
  void fail(Error cause, std::uint64_t notice);
  // The threads.
  void watch();
  void keep_deadline();
  void send_notice_and_close();

  const std::shared_ptr<::gloo::transport::Device> device_;
  const net::Members members_;
  const std::unique_ptr<SealedRelay> relay_;  // where the mesh is encrypted
  const std::shared_ptr<Context> data_, control_;
  std::vector<Peer> peers_;                   // by member; the channels are replaced with the mutex held
  std::vector<std::uint64_t> close_notices_;  // by member; 0 for none yet
  std::unique_ptr<Buffer> notice_buffer_;     // spans close_notices_
  std::atomic<int> awaited_{0};               // the member that this turn waits for

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Buffer> liveness_;      // a receive from each peer that no peer sends: it ends with the connection
  std::optional<Error> cause_;            // the first; set once
  bool titled_ = false;                   // it begins with the title of an operation
  std::uint64_t own_notice_ = 0;          // the notice for the peers
  bool running_ = false;                  // between enter() and leave()
  Clock::time_point deadline_, started_;  // of this turn
  Clock::time_point next_check_;          // when the deadline is checked next
  std::condition_variable deadline_is_earlier_;  // than next_check_
  bool checks_ = false;         // whether the members that are still missing will come: until all have met
  Clock::time_point check_at_;  // then, for the next time

  std::jthread watcher_, deadline_thread_;
};

}  // namespace xoe::gloo

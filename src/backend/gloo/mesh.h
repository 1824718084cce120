// Members that are connected each with each other through Gloo, and who tells whom when one of them goes.
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

#include "backend/net/net.h"
#include "xoe/status.h"

namespace xoe::gloo {

using net::Clock;

// Messages of one lane with one peer complete in the order in which they were posted.
enum Lane : int { kFirstLane, kSecondLane, kLanes };

// Gloo moves the bytes: what cannot be moved at once is moved by its device's thread. When a connection breaks it wakes
// only some of those who wait for the peer, and its time-outs break all connections without a word. So one thread of
// the mesh waits for broken connections and another for the deadline; they wake whoever waits, and the last thing that
// a member sends is why it goes. That has connections of its own: those for data are stuck once a collective was given
// up.
class Mesh {
 public:
  // Collective, within the deadline.
  static Result<std::unique_ptr<Mesh>> connect(std::shared_ptr<::gloo::transport::Device> device,
                                               const net::Members& members, const net::Exchange& exchange,
                                               Clock::time_point deadline);
  ~Mesh();

  int self() const noexcept { return members_.self; }
  int size() const noexcept { return static_cast<int>(members_.ranks.size()); }

  // One thread may call the four below between enter() and leave(), which follows also where enter() fails, as it
  // does after the first failure. When leave() fails, nothing of what was posted is in use any more.
  Status enter(Clock::time_point deadline);
  // The failure begins with the collective's and the operation's name that were first told it: "allreduce (loss): ".
  Status leave(Status outcome, std::string_view collective, std::string_view name);

  // Both sides name the same slot, and as many bytes. What is to be received is best posted first.
  Status send(int peer, Lane lane, std::uint64_t slot, const void* data, std::size_t bytes);
  Status receive(int peer, Lane lane, std::uint64_t slot, void* data, std::size_t bytes);
  // For the next message of this lane.
  Status wait_sent(int peer, Lane lane);
  Status wait_received(int peer, Lane lane);

  // Any thread.
  void abort() noexcept;

 private:
  using Context = ::gloo::transport::Context;
  using Buffer = ::gloo::transport::UnboundBuffer;

  struct Peer {
    std::unique_ptr<Buffer> lanes[kLanes];
    bool gone = false;
  };

  Mesh(net::Members members, std::shared_ptr<Context> data, std::shared_ptr<Context> control);

  void open_lanes(Context& context);
  Status meet(Clock::time_point deadline);
  Status wait(int peer, Lane lane, bool received);
  Status broken(int peer, const char* what);
  void give_back();
  std::unique_lock<std::mutex> locked() const { return std::unique_lock(mutex_); }
  int rank_of(int member) const { return members_.ranks[static_cast<std::size_t>(member)]; }
  Peer& peer_at(int member) { return peers_[static_cast<std::size_t>(member)]; }

  // watch.cc. With the mutex held:
  void look();
  void read_farewell(int member);
  void fail(Error cause, std::uint64_t farewell);
  // The threads.
  void watch();
  void keep_deadline();
  void say_farewell_and_close();

  const net::Members members_;
  const std::shared_ptr<Context> data_, control_;
  std::vector<Peer> peers_;                // by member; the lanes are replaced with the mutex held
  std::vector<std::uint64_t> farewells_;   // by member: what it said at last, 0 for nothing
  std::unique_ptr<Buffer> farewell_room_;  // spans farewells_
  std::atomic<int> awaited_{0};            // whom this turn waits for

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Buffer> alarm_;         // a receive from each peer that nobody sends: it ends with the connection
  std::optional<Error> cause_;            // the first; set once
  bool named_ = false;                    // it says which operation was told first
  std::uint64_t farewell_ = 0;            // what the others are to be told
  bool running_ = false;                  // between enter() and leave()
  Clock::time_point deadline_, started_;  // of this turn
  Clock::time_point looked_at_;           // when the deadline is looked at next
  std::condition_variable earlier_;       // than that

  std::jthread watcher_, timekeeper_;
};

}  // namespace xoe::gloo

// Messages between one process of each host, and word of hosts that are gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// What happened on the other hosts, told from the mesh's thread.
struct MeshEvents {
  std::function<void(int from, std::string message)> message;
  // Once for each. silent: its host or the network is gone; else the process is. Not for members that said goodbye.
  std::function<void(int member, bool silent, const std::string& why)> lost;
};

struct MeshOptions {
  std::string address = {};                                     // of this host, as a number, that the others reach
  std::string secret = {};                                      // both ends of each connection prove that they know it
  std::chrono::nanoseconds silence = std::chrono::seconds(10);  // until a host that says nothing counts as gone
};

// A connection for each two members, over TCP. Messages arrive in order and once.
class HostMesh {
 public:
  // Everybody gives some bytes and gets everybody's, by member.
  using Exchange = std::function<Result<std::vector<std::string>>(std::string mine)>;
  static constexpr std::size_t kMaxMessage = std::size_t{64} << 20;

  // Collective over the members.
  static Result<std::unique_ptr<HostMesh>> connect(int self, int size, const Exchange& exchange,
                                                   const MeshOptions& options,
                                                   std::chrono::steady_clock::time_point deadline, MeshEvents events);
  // Says goodbye; no event comes after that.
  ~HostMesh();

  // Queues the message; dropped when that member is gone. Any thread.
  void send(int to, std::string_view message);

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    Fd socket = {};
    FrameBuffer in = {};
    std::string out = {};
    Clock::time_point heard = {};
    Clock::time_point sent = {};
    bool gone = false;
  };

  HostMesh(const MeshOptions& options, MeshEvents events);
  void run(const std::stop_token& stop);
  void read_from(int member, Clock::time_point now);
  bool take_messages(int member);
  void write_to(Peer& peer);
  void keep_alive(Clock::time_point now);
  void lose(int member, bool silent, const std::string& why);

  std::chrono::nanoseconds silence_;
  MeshEvents events_;
  std::mutex mutex_;  // of the peers' `out`, `sent` and `gone`
  std::vector<Peer> peers_;
  Fd poke_;  // eventfd: something to send, or the end
  std::jthread thread_;
};

}  // namespace xoe::bootstrap

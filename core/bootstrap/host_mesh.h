// Messages between one process of each host, and detection of lost hosts.
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

#include "core/base/bytes.h"
#include "core/base/fd.h"
#include "core/bootstrap/mesh_handshake.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

class HostMesh;

// Called from the mesh's thread, from before connect() has returned until the mesh's destructor ends.
struct MeshEvents {
  // An answer goes through `mesh`: the owner's pointer is not set yet, or not any more.
  std::function<void(HostMesh& mesh, int from, std::string message)> message;
  // At most once per member, and not for members that closed the mesh. silent: its host or the network is down;
  // otherwise the process is gone.
  std::function<void(int member, bool silent, const std::string& why)> lost;
};

struct MeshOptions {
  ConnectOptions connection = {};
  std::chrono::nanoseconds silence = std::chrono::seconds(10);  // after which a host counts as lost
};

// One TCP connection between each two members, or between those of ConnectOptions::members. Messages arrive exactly
// once, in order, and as they were sent: they are encrypted, and a connection on which they were changed counts as
// lost.
class HostMesh {
 public:
  static constexpr std::size_t kMaxPiece = std::size_t{16} << 20;  // longer messages go in several

  // Collective over the members.
  static Result<std::unique_ptr<HostMesh>> connect(int self, int size, const Exchange& exchange,
                                                   const MeshOptions& options,
                                                   std::chrono::steady_clock::time_point deadline, MeshEvents events);
  // Tells the peers that it closes; no event follows.
  ~HostMesh();

  // Enqueues the message; drops it when that member is gone, or not connected. Any thread.
  void send(int to, std::string_view message);

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    Fd socket = {};
    Sealer sealer;
    Opener opener;
    FrameBuffer in = {};
    std::string pieces = {};  // of a message that is not whole yet
    std::string out = {};     // sealed
    Clock::time_point heard = {};
    Clock::time_point sent = {};
    bool gone = false;
  };

  HostMesh(const MeshOptions& options, MeshEvents events);
  void run(const std::stop_token& stop);
  void read_from(int member, Clock::time_point now);
  bool take_messages(int member);
  static void enqueue(Peer& peer, std::uint32_t length, std::string_view body = {});
  static void enqueue_message(Peer& peer, std::string_view message);
  static void write_to(Peer& peer);
  void keep_alive(Clock::time_point now);
  bool lose_malformed(int member);  // false
  void lose(int member, bool silent, const std::string& why);

  std::chrono::nanoseconds silence_;
  MeshEvents events_;
  std::mutex mutex_;  // guards the peers' `sealer`, `out`, `sent` and `gone`
  std::vector<Peer> peers_;
  Fd wakeup_;  // eventfd: there is something to send, or the thread shall stop
  std::jthread thread_;
};

}  // namespace xoe::bootstrap

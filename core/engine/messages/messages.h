// Messages from rank to rank.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "core/bootstrap/member_connection.h"
#include "core/engine/messages/byte_link.h"
#include "core/engine/messages/matching.h"
#include "xoe/engine.h"
#include "xoe/memory.h"
#include "xoe/status.h"

namespace xoe::engine {

struct MessagesOptions {
  std::string name = {};     // of an operation by which the ranks meet
  std::string address = {};  // numeric, of this host, that the other hosts reach
  std::string secret = {};   // which only the ranks know
  bool encrypt = false;      // what leaves this host
  // Messages move also while no thread waits for one. Else only a wait or a test moves them.
  bool progress_thread = true;
};

class Runtime;

// Through rings in shared memory within a host. Between hosts over TCP: the first message to a rank connects to it, and
// a connection carries what one of its ends sends. Messages of one sender and tag arrive in the order of the sends.
// Bytes of a peer stay where they are while no receive of this rank may want them, and hold their sender up once there
// is no more room; while one waits, what comes before its message is kept.
//
// An error of the world, or of memory, ends all messages for good; the end of a peer, all with that peer.
//
// Any thread may call all members but the destructor.
class Messages {
 public:
  // Collective over the engine's world.
  static Result<std::shared_ptr<Messages>> open(Engine& engine, const MessagesOptions& options);
  Messages(const Messages&) = delete;
  ~Messages();

  // Messages under way fail with `unavailable`; so do later ones. Twice is once.
  void close();

  // The memory must stay as it is until the message is done. timeout: 0: the engine's stall limit. The first message to
  // or from a rank of another host blocks while it connects to it.
  Result<MessagePtr> send(int to, std::uint64_t tag, const void* data, std::size_t bytes,
                          std::chrono::nanoseconds timeout = {});
  // from: a rank, or kAnyRank.
  Result<MessagePtr> receive(int from, std::uint64_t tag, void* data, std::size_t bytes,
                             std::chrono::nanoseconds timeout = {});

  // Waits for so long. True: done. Errors of the message: `peer_lost`, `timeout`, `invalid_argument` (the message has
  // another size), `unavailable`. It is over then, and its memory not used any more.
  Result<bool> wait(const MessagePtr& message, std::chrono::nanoseconds timeout);
  // Gives the message up: its memory is not used any more. A send of which bytes have left goes on from a copy; what
  // arrives is kept for another receive.
  void abandon(const MessagePtr& message);
  // Ends what cannot be completed any more. A wait does so, too.
  void check_failures();
  // The rank that a message came from, or goes to; kAnyRank: not known yet.
  int source(const MessagePtr& message) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    SharedBuffer box = {};               // of this host: the rank's rings, to which this one writes
    pid_t pid = 0;                       // of this host; 0: that process cannot be looked at from here
    std::string address = {};            // of another host
    std::mutex connecting = {};          // held by the thread that connects to it
    std::unique_ptr<ByteLink> out = {};  // null: not connected yet
    std::unique_ptr<ByteLink> in = {};
    SendQueue queue = {};
  };

  Messages(std::shared_ptr<Runtime> runtime, const MessagesOptions& options);
  Status share_rings(Engine& engine);
  Status exchange_addresses(Engine& engine);
  Status start_thread();

  Status connect(int to, std::chrono::nanoseconds timeout);
  Result<MessagePtr> begin(Message message, std::chrono::nanoseconds timeout);
  void accept(int member, bootstrap::MemberConnection connection);

  void run(const std::stop_token& stop);
  int add_sockets(std::vector<pollfd>& entries) const;
  bool progress();
  bool move_bytes();
  bool idle() const;
  Status why_gone(int rank, const Peer& peer) const;
  void fail_all(const Status& why);
  void drop(const MessagePtr& message);

  const std::shared_ptr<Runtime> runtime_;
  const int rank_, size_;
  const MessagesOptions options_;
  std::size_t capacity_ = 0;  // of a ring, bytes
  std::byte* own_box_ = nullptr;
  std::vector<Peer> peers_;
  Fd wakeup_;                                            // eventfd
  std::unique_ptr<bootstrap::MemberAcceptor> acceptor_;  // of the thread
  std::atomic<int> waiters_{0};

  mutable std::mutex mutex_;  // guards what follows, and the peers' links and queues
  Matching matching_;
  Clock::time_point next_check_{};
  Status state_;  // an error: all messages have ended
  bool closed_ = false;
  bool sleeps_ = false;  // the thread, until it is woken or for long
  std::jthread thread_;
};

}  // namespace xoe::engine

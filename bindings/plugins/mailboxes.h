// Messages between ranks of one host: each rank has a ring of bytes for each sender, in memory that all ranks map. What
// is sent is copied twice.
//
// Messages from one sender arrive in the order in which they were sent. A receiver that expects another one first keeps
// what it does not expect yet. Nothing here has a thread: messages move while a thread waits for one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "xoe/c.h"

namespace xoe::plugins {

// For any thread.
class Mailboxes {
 public:
  struct Message;
  using Request = std::shared_ptr<Message>;

  // Collective over the engine's ranks. The engine outlives it. Null: xoe_last_error() says why.
  static std::unique_ptr<Mailboxes> open(xoe_engine* engine, int rank, int size);
  Mailboxes(const Mailboxes&) = delete;
  Mailboxes& operator=(const Mailboxes&) = delete;
  ~Mailboxes();

  // Whether a rank is on this host.
  bool reaches(int rank) const { return boxes_[static_cast<std::size_t>(rank)] != nullptr; }

  // The memory must stay as it is until the request is done. Messages meet by context, sender and order. REQUIRES:
  // reaches(peer).
  Request send(int to, std::uint64_t context, const void* data, std::size_t bytes);
  Request receive(int from, std::uint64_t context, void* data, std::size_t bytes);

  // Empty: done. Else why not: the peer has died, its message has another size, or none came within XOE_STALL_LIMIT
  // (seconds; default 600, 0: wait for ever). The request is then abandoned.
  std::string wait(const Request& request);
  // The memory of the request is not touched any more. A send goes on from a copy; bytes that arrive for it are
  // dropped.
  void abandon(const Request& request);

 private:
  struct Ring;
  struct Incoming;

  Mailboxes(int rank, int size);

  Ring& ring(int of, int from) const;
  void progress();
  void push(int to);
  void pull(int from);
  void begin(int from, Incoming& incoming);
  void end(int from, Incoming& incoming);
  bool alive(int rank) const;
  void forget(const Request& request);

  const int rank_;
  const int size_;
  std::size_t capacity_ = 0;  // of a ring, bytes
  double limit_ = 0;          // of a wait, seconds; 0: none
  std::vector<std::byte*> boxes_;
  std::vector<xoe_buffer*> buffers_;
  std::vector<int> pids_;  // 0: that process cannot be looked at from here

  std::mutex mutex_;
  std::vector<std::deque<Request>> outgoing_;  // by receiver
  std::vector<std::list<Request>> expected_;   // by sender
  std::vector<Incoming> incoming_;             // by sender
};

}  // namespace xoe::plugins

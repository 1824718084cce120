// Which message of a peer goes to which receive.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "core/engine/messages/byte_link.h"
#include "xoe/status.h"

namespace xoe::engine {

inline constexpr int kAnyRank = -1;

// A send or a receive of this rank. Guarded by the mutex of its Messages.
struct Message {
  bool is_send = false;
  int peer = 0;  // kAnyRank: until one is found
  std::uint64_t tag = 0;
  std::byte* data = nullptr;  // not written to by a send
  std::size_t bytes = 0;
  std::size_t moved = 0;    // of a send: with its header
  std::uint64_t order = 0;  // of a receive, among all
  bool done = false;
  Status result = {};                   // once it is done
  std::chrono::nanoseconds limit = {};  // 0: none
  std::chrono::steady_clock::time_point deadline = {};
  std::vector<std::byte> copy = {};  // of an abandoned send

  // The first time counts.
  void finish(Status with = {}) {
    if (done) return;
    done = true;
    result = std::move(with);
  }
  // A receive of what was kept.
  void take(int from, const std::vector<std::byte>& kept);
};

using MessagePtr = std::shared_ptr<Message>;

// What goes to one peer, in order.
class SendQueue {
 public:
  void add(MessagePtr message);
  bool empty() const noexcept { return queue_.empty(); }
  // As much as there is room for, but no more than a turn's share. True: bytes went out.
  bool push(ByteLink& link);
  // The send's memory is not read any more. If bytes of it have left, the rest goes out from a copy.
  void give_up(const MessagePtr& send);
  // Fails all that it has and will be given: part of a message may have gone out.
  void fail(const Status& why);

 private:
  std::deque<MessagePtr> queue_;
  Status state_;  // an error: it takes no more
};

// Receives that wait, of one peer or of any, and what arrives. Messages of one peer and tag meet receives in order, of
// one peer and of any alike; those that nothing waits for are kept.
class Matching {
 public:
  explicit Matching(int size) : expected_(static_cast<std::size_t>(size)), incoming_(static_cast<std::size_t>(size)) {}

  // The peer that shall be pulled from first, so that each has its turn where any will do.
  int turn() const noexcept { return turn_; }
  // Completes it at once if its message has been kept.
  void add(const MessagePtr& receive);
  // Whether bytes of this peer are of use now. Others stay where they are, which holds their sender up.
  bool wants(int from) const;
  // What has arrived, but no more than a turn's share. True: some bytes have.
  bool pull(int from, ByteLink& link);
  // The receive's memory is not touched any more; the rest of its message is kept.
  void forget(const MessagePtr& receive);
  // Fails all receives that wait for this peer. No more is read of a message whose receive failed in the middle.
  void fail(int from, const Status& why);
  // Fails all receives that wait for any peer.
  void fail_any(const Status& why);
  bool empty() const;

 private:
  // A message that is arriving, and those that nothing waited for when they arrived.
  struct Incoming {
    std::byte header[2 * sizeof(std::uint64_t)] = {};  // tag, bytes
    std::size_t got = 0;                               // of header and bytes
    MessagePtr into = nullptr;                         // null: kept until it is expected
    bool cut = false;                                  // its receive failed, and the rest would be taken for another
    std::vector<std::byte> kept = {};
    struct Kept {
      std::uint64_t tag;
      std::vector<std::byte> bytes;
    };
    std::list<Kept> waiting = {};

    std::uint64_t tag() const;
    std::size_t bytes() const;
  };

  // Takes the first receive that waits for such a message; null: none does.
  MessagePtr claim(int from, std::uint64_t tag);
  // The same, but null if it waits for another size.
  MessagePtr claim_sized(int from, std::uint64_t tag, std::size_t bytes);
  struct Found {
    std::list<MessagePtr>* list;
    std::list<MessagePtr>::iterator at;
  };
  Found find(int from, std::uint64_t tag);
  void begin(int from, Incoming& incoming);
  void end(int from, Incoming& incoming);

  std::vector<std::list<MessagePtr>> expected_;  // by sender
  std::list<MessagePtr> of_any_;
  std::vector<Incoming> incoming_;  // by sender
  std::uint64_t receives_ = 0;      // that were added
  int turn_ = 0;
};

}  // namespace xoe::engine

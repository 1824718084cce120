// Messages between the leaders of a group's hosts.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace xoe {

// One leader's end of the channel. Messages between two hosts arrive complete and in the order in which they were sent.
// One thread at a time.
class LeaderChannel {
 public:
  struct Incoming {
    int from_host = 0;
    std::vector<std::byte> message;
  };

  virtual ~LeaderChannel() = default;
  // Queues the message; progress() sends it.
  virtual void send(int to_host, std::vector<std::byte> message) = 0;
  // Sends queued bytes without blocking; true if other leaders have something to do: bytes went out, or receive() took
  // some, also of a message that has not arrived whole.
  virtual bool progress() = 0;
  virtual std::optional<Incoming> receive() = 0;
};

}  // namespace xoe

// How the leaders of a group's hosts send each other messages.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace xoe {

// Messages of one host's leader: in order between each two hosts, none lost. One thread at a time.
class HostLink {
 public:
  struct Incoming {
    int from_host = 0;
    std::vector<std::byte> message;
  };

  virtual ~HostLink() = default;
  // Queues the message; it leaves as pump() finds room.
  virtual void send(int to_host, std::vector<std::byte> message) = 0;
  // Moves what can be moved without blocking; true if anything went out.
  virtual bool pump() = 0;
  virtual std::optional<Incoming> receive() = 0;
};

}  // namespace xoe

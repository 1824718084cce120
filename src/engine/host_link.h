// How the leaders of hosts send each other messages.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "xoe/communicator.h"
#include "xoe/status.h"

namespace xoe::engine {

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

// For hosts that are pretended: mailboxes in memory that all of the communicator's ranks map. leaders: rank of each
// host's leader. Collective over `comm`; null on ranks that lead no host, which must keep it all the same.
struct SharedLink {
  SharedBuffer memory;
  std::unique_ptr<HostLink> link;
};
Result<SharedLink> make_shared_link(Communicator& comm, const std::vector<int>& leaders);

}  // namespace xoe::engine

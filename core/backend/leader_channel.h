// Messages between the leaders of a group's hosts, along a tree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace xoe {

// The hosts of a group as a tree, with host 0 as its root.
struct HostTree {
  static constexpr int kFanout = 4;

  int hosts = 1;
  int fanout = kFanout;  // children of a host, at most

  int parent(int host) const noexcept { return (host - 1) / fanout; }  // of a host that is not the root
  int child(int host, int index) const noexcept { return host * fanout + 1 + index; }
  int children(int host) const noexcept { return std::clamp(hosts - child(host, 0), 0, fanout); }
  std::vector<int> neighbours(int host) const {
    std::vector<int> found;
    if (host != 0) found.push_back(parent(host));
    for (int i = 0; i < children(host); ++i) found.push_back(child(host, i));
    return found;
  }
};

// One leader's end of the channel, to the hosts next to its own in the tree. Messages between two hosts arrive complete
// and in the order in which they were sent.
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

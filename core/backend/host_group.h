// The hosts of a backend's group: what the engine needs besides collectives.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/backend/leader_channel.h"
#include "core/base/process_activity.h"
#include "xoe/memory.h"
#include "xoe/status.h"

namespace xoe {

// Memory for what outgrows the memory that a host's ranks have shared from the beginning. Any thread.
class HostBlocks {
 public:
  // Takes a block, zero at first, out of this rank's memory; it lasts as host_memory() does. Returns its number, which
  // means the same on all ranks of the host; the number plus n means the byte n further. `resource_exhausted`.
  virtual Result<std::uint64_t> allocate_block(std::size_t bytes) = 0;
  // Where a block of any rank of this host lies in this process.
  virtual std::byte* block_address(std::uint64_t block) const noexcept = 0;

 protected:
  ~HostBlocks() = default;
};

// Lives as long as its Backend. Collective functions follow the backend's thread rule.
class HostGroup : public HostBlocks {
 public:
  // The host of each rank. Hosts are numbered from 0 by the first rank on each.
  virtual const std::vector<int>& hosts() const noexcept = 0;
  // Memory that the group's ranks of a host share, zero at first. It lasts as long as the backend of any of them.
  // Collective.
  virtual Result<std::byte*> host_memory(std::size_t bytes) = 0;
  // The block that holds a shared_buffer() of this rank; nullopt: the buffer is none. Any thread.
  virtual std::optional<std::uint64_t> block_of(const SharedBuffer& buffer) const noexcept = 0;
  // A block of any rank of this host as a buffer, which keeps it mapped here, and not allocated there. Any thread.
  virtual SharedBuffer view(std::uint64_t block, std::size_t bytes) const = 0;
  // Connects the hosts' leaders, the first rank on each host, along HostTree. Collective; nullptr on the other ranks.
  virtual Result<std::unique_ptr<LeaderChannel>> leader_channel() = 0;
  // Wakes the ranks of this host that sleep, and this rank's other threads. Call it after publishing in host_memory().
  // Any thread.
  virtual void wake() const noexcept = 0;
  // Sleeps until woken, until a collective of any group of this rank may proceed, or until `until`. Calls `ready` once
  // after this rank has been counted as asleep, and returns at once if it says true. Any thread.
  virtual void sleep(const std::function<bool()>& ready, std::chrono::steady_clock::time_point until) const = 0;
  // Another number whenever a rank of this host has taken a step of one of the group's collectives. Any thread.
  virtual std::uint64_t steps() const noexcept = 0;
  // The ranks that have left the group: they take part in no later operation.
  virtual std::vector<int> departed() const = 0;
  // What a rank's process is doing; nullopt: not known. Of a rank on another host only this host's
  // leader asks, and the answer may be some seconds old. Any thread.
  virtual std::optional<ProcessActivity> activity(int rank) const = 0;
  // More ranks than processors: a waiting thread should yield instead of spin.
  virtual bool oversubscribed() const noexcept = 0;

 protected:
  ~HostGroup() = default;
};

}  // namespace xoe

// What every rank of the job must hear of at once: ranks and hosts that are gone, and groups that have failed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "xoe/status.h"

namespace xoe::hierarchical {

// One event, in shared memory and on its way between hosts.
struct AlarmEvent {
  enum class Kind : std::uint32_t { kRankLost, kHostLost, kGroupFailed, kRankLeft };
  Kind kind = Kind::kRankLost;
  std::int32_t rank = 0;      // in the job: which is lost, or which tells; kHostLost: the host
  std::uint64_t group = 0;    // kGroupFailed, kRankLeft: its number in the job
  std::uint64_t done = 0;     // kRankLeft: how many collectives it has done there
  std::uint32_t code = 0;     // Code
  std::uint32_t foreign = 0;  // 1: from another host, which told all
  char text[512] = {};

  std::string message() const;
};

// The events of a host in the order in which its ranks tell them, in memory that they share: a rank sleeps in the
// kernel until there is one.
class AlarmLog {
 public:
  static std::size_t bytes() noexcept;
  explicit AlarmLog(std::byte* memory) noexcept;  // zero at first

  // Never blocks. Events beyond some hundred are dropped.
  void tell(const AlarmEvent& event) noexcept;
  // The event number `n`, from 0; waits for it until somebody calls wake().
  bool await(std::uint32_t n, AlarmEvent& event, const std::atomic<bool>& stopped) const noexcept;
  void wake() const noexcept;  // all that wait, in all processes

 private:
  struct Shared;
  Shared* shared_;
};

// Hears the log on behalf of one rank.
class Alarm {
 public:
  // forward: called for each event that comes from this host, by the host's leader to tell the others; may be null.
  Alarm(AlarmLog log, std::function<void(const AlarmEvent&)> forward);
  ~Alarm();

  void tell(const AlarmEvent& event) noexcept { log_.tell(event); }
  // Calls `heard` for every event, also for those that came before; from the alarm's thread, or before this returns.
  // Gives a number to stop it with: no call is under way when forget() returns, unless it is itself called from one.
  int listen(std::function<void(const AlarmEvent&)> heard);
  void forget(int listener);

 private:
  void run();

  AlarmLog log_;
  std::function<void(const AlarmEvent&)> forward_;
  std::recursive_mutex mutex_;
  std::vector<AlarmEvent> past_;
  std::map<int, std::function<void(const AlarmEvent&)>> listeners_;
  int next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::jthread thread_;
};

}  // namespace xoe::hierarchical

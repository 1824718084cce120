// The leader of a host: takes what its host's ranks have complete to the coordinator of hosts, and brings back
// decisions.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/leader_channel.h"
#include "engine/negotiate/coordinator.h"
#include "engine/negotiate/readiness_table.h"
#include "engine/submission.h"
#include "xoe/status.h"

namespace xoe::engine {

class HostLeader {
 public:
  // host: of `hosts`. describe: a mismatch among this host's ranks, in words.
  HostLeader(ReadinessTable& table, int host, int hosts, std::unique_ptr<LeaderChannel> channel,
             std::function<std::string(const LogLine&)> describe);

  // Goes on without blocking; true if anything moved. may_decide: the wire is idle. `internal`: the hosts have lost
  // their agreement.
  Result<bool> advance(bool may_decide, std::uint16_t knobs);
  // Something is complete here, a rank sleeps over it, and the plan wants something else first: after a while the plan
  // is given up. True while that is to be looked at again soon.
  bool held_back();
  std::vector<int> missing_hosts(std::string_view name) { return coordinator_.missing_hosts(name); }
  const Coordinator& coordinator() const noexcept { return coordinator_; }

 private:
  void submit(const LogLine& line);
  void decide(const Decision& decision);
  LogLine line_of(const DecidedTensor& tensor);

  ReadinessTable& table_;
  Coordinator coordinator_;
  std::unique_ptr<LeaderChannel> channel_;
  std::function<std::string(const LogLine&)> describe_;
  std::uint64_t ready_position_ = 0;
  std::uint64_t seal_number_ = 0;
  std::map<std::string, LogLine, std::less<>> undecided_;  // complete on this host
  EngineClock::time_point held_since_{};
};

}  // namespace xoe::engine

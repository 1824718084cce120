// What happens to a simulated job, as its seed says.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/testing/sim/simulation.h"

namespace xoe::launch::sim_tests {

struct Event {
  enum class Kind : std::uint8_t {
    kKillRank,        // SIGKILL to one of the host's ranks
    kKillSupervisor,  // to what starts its ranks
    kKillMember,      // to its `xoe run`, which joins again after `lasts`
    kLeave,           // SIGTERM to its `xoe run`, which joins again after `lasts`
    kCut,             // no message between it and `other`, in either direction
    kHalfCut,         // nor from it to `other`
    kIsolate,         // nor between it and any other
    kPause,           // its processes stand still
    kStopRank,        // one of its ranks does
    kSwitchOff,       // the plug is pulled
    kJump,            // its wall clock jumps by `lasts`
  };
  sim::Time at = 0;
  Kind kind = Kind::kKillRank;
  int host = 0, other = 0;
  sim::Time lasts = 0;
};

struct Schedule {
  sim::Options options;
  int hosts = 3, ranks = 1;  // of each host
  int commit_every = 1;
  const char* sums = "comm";  // the third argument of training()
  sim::Time step = 100 * sim::kMilli;
  sim::Time length = 20 * sim::kSecond;
  sim::Time done_at = 0;  // the training is done amid what happens; 0: when all is whole again
  std::vector<Event> events;
};

Schedule schedule_of(std::uint64_t seed);
std::string to_text(const Event& event);

}  // namespace xoe::launch::sim_tests

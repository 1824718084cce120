// What happens in a simulated lab, as its seed says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/testing/sim/simulation.h"

namespace xoe::pool::sim_tests {

struct Event {
  enum class Kind : std::uint8_t {
    // What users do.
    kRun,       // `xoe pool run` with a program that takes `lasts`
    kAcquire,   // `xoe pool acquire` for `lasts`
    kReserve,   // the same from `from` on
    kRenew,     // one of the user's leases, for `lasts` from now
    kRelease,   // one of them
    kRevoke,    // a lease of anybody, by the admin
    kUnleased,  // a program without a lease, for `lasts`
    kAdopt,     // a lease for what the user runs without one
    kLook,      // status, events and usage
    // What goes wrong.
    kKillClient,   // SIGKILL to a `run` or `acquire`
    kEndClient,    // SIGTERM
    kKillProgram,  // SIGKILL to a user's program
    kKillServer,   // SIGKILL; it starts again after `lasts`
    kEndServer,    // SIGTERM; the same
    kKillAgent,    // SIGKILL to the agent of `host`, which starts again after `lasts`
    kCut,          // no message between `host` and the server, in either direction
    kHalfCut,      // nor from `host` to the server, or the other way
    kPause,        // all processes of `host` stand still
    kStop,         // a process of the pool does
    kSwitchOff,    // `host` has no power for `lasts`
    kJump          // its clock jumps by `lasts`
  };
  sim::Time at = 0;
  Kind kind = Kind::kRun;
  int host = 0;  // 0: the server's; from 1 on those with GPUs
  int user = 0;
  sim::Time lasts = 0;
  sim::Time from = 0;
  int gpus = 1;
  int priority = 0;
  bool wait = false;
  bool busy = true;  // the program computes
  bool flag = false;
  std::uint64_t pick = 0;
};

struct Team {
  int quota = 0;
  bool may_borrow = true;
};

struct User {
  int team = -1;  // -1: none
  int max_gpus = 0;
};

struct Schedule {
  sim::Options options;
  std::vector<int> gpus;  // of each host with GPUs
  std::vector<Team> teams;
  std::vector<User> users;
  std::vector<std::string> rules;  // options of `xoe pool serve`
  bool reclaims_idle = false, reclaims = false;
  sim::Time report_interval = 2 * sim::kSecond;
  sim::Time host_timeout = 30 * sim::kSecond;
  sim::Time patience = 0;  // of people who wait; 0: without an end
  sim::Time length = 0;
  std::vector<Event> events;
};

// A simulated quarter of an hour, or more.
Schedule schedule_of(std::uint64_t seed);
// A year, with rarer reports.
Schedule year_of(std::uint64_t seed, int days);
std::string to_text(const Event& event);

}  // namespace xoe::pool::sim_tests

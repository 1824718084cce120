// The scheduler: a pure function of the pool's state and the time.
//
// Leases that wait stand in a queue: by priority, then in the order in which they came. Each has a planned start and
// planned GPUs. First each gets a place within its team's quota; then those that can start earlier borrow what is left,
// of a team that uses the smallest share of its quota first. A new lease takes the earliest room that disturbs no lease
// of its priority within a quota or above; so it may pass an earlier one, but only where it ends before that one's
// start. When GPUs become free early, all move forward in the order of the queue, and none moves back. So a planned
// start is never later than it was said, unless a more important lease comes, one that is within its quota takes the
// place of one that borrows, GPUs go away, or a rule changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pool/model/state.h"

namespace xoe::pool {

struct PlannedLease {
  std::int64_t lease = 0;
  int position = 0;                 // in the queue, from 1
  bool borrowed = false;            // its team would be beyond its quota
  std::optional<Time> starts = {};  // nullopt: not before something changes; `why` says what
  std::vector<std::string> gpus = {};
  std::string why = {};  // one sentence: why it does not start now
};

// The holder of `lease` shall end it by then, because `for_lease` is more important.
struct GiveWayCall {
  std::int64_t lease = 0;
  GiveWay give_way = {};
};

struct Plan {
  std::vector<PlannedLease> waiting = {};  // in the order of the queue
  std::vector<GiveWayCall> calls = {};
};

// Open leases must not have ended yet (Lease::ends() > now).
Plan plan_leases(const State& state, Time now);

// Open leases whose holders were asked to give way to one that no longer waits, and that may go on without breaking
// another's planned start.
std::vector<std::int64_t> calls_that_are_over(const State& state);

// The first waiting lease whose planned start would no longer hold if the open lease ended at `until`; nullopt: none.
struct Promise {
  std::int64_t lease = 0;
  std::string user = {};
  Time starts = {};
};
std::optional<Promise> promise_before(const State& state, const Lease& lease, Time until);
// The same for the holder of `lease`, which may be one that is about to open. It also keeps the promises that do not
// hold now because GPUs are used without a lease: each is for the start that its lease would have if they were not.
std::optional<Promise> promise_before(const State& state, const Lease& lease, Time until, Time now);

}  // namespace xoe::pool

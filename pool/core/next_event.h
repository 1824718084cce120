// When the pool has to act next although no command comes, and times after the clock was set.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "pool/model/state.h"

namespace xoe::pool {

// A short lease is warned about in its last quarter.
Time warning_time(const Policy& policy, const Lease& lease);

// When a turn is due although no command comes; nullopt: not before one does. `touched`: when the clients of leases
// that need them were heard of.
std::optional<Time> next_event(const State& state, const std::map<std::int64_t, Time>& touched);

// Leases whose clients were silent for too long. One that is not in `touched` is put there: the server has just
// started.
std::vector<std::int64_t> abandoned_leases(const State& state, std::map<std::int64_t, Time>& touched, Time now);

// Moves what is under way by as much as the clock was set, so that no lease is longer or shorter for it. Reservations
// stay: they are times of the day.
void move_times(State& state, std::map<std::int64_t, Time>& touched, Span by);

// The time of the turn after one at `before`: the clock's, or that of before where the clock went back a little, so
// that nothing that was decided is undone. After a large step back the wrong time is over: what was heard of in it
// counts as heard of now.
Time time_of_turn(State& state, std::map<std::int64_t, Time>& touched, Time before, Time now);

}  // namespace xoe::pool

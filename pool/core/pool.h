// The pool as a state machine: commands and the passage of time change its state and its database together.
//
// A turn is begin(now), any number of commands, then finish(now), which plans, grants, and commits. What a command did
// is final, and may be told to its client, when finish() has returned. Nothing here reads a clock or waits, so a
// sequence of turns always gives the same states.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool/core/host_book.h"
#include "pool/core/idle.h"
#include "pool/core/journal.h"
#include "pool/core/usage_meter.h"
#include "pool/core/wall_clock.h"
#include "pool/model/state.h"
#include "pool/scheduler/plan.h"
#include "pool/state/store.h"

namespace xoe::pool {

// One thread at a time.
class Pool {
 public:
  static Result<Pool> open(Store store, Policy policy);

  const State& state() const noexcept { return state_; }
  Store& store() noexcept { return journal_.store(); }

  // Ends what is over by `now`. jump: what happened to the clock since the last turn.
  Status begin(Time now, const std::optional<ClockJump>& jump = std::nullopt);
  // Stores how the clock is set, with the turn that has begun, if it differs from what is stored.
  Status keep(const ClockMark& mark);
  // Plans, grants, commits. After an error all of the turn is undone.
  Status finish();
  // Undoes the turn: the state is that of the database again.
  Status abandon();
  // When a turn is due although no command comes; nullopt: not before one does.
  std::optional<Time> next_event() const;

  // Commands; each belongs to the turn that has begun. An error is one of the caller's, nothing has changed, and the
  // turn goes on, unless it came from the database.
  const std::optional<Error>& database_failure() const noexcept { return journal_.failure(); }

  // Returns the lease's id. The same user and token: the lease of the first time, whatever has become of it.
  // `invalid_argument`, `resource_exhausted`: refused by a limit.
  Result<std::int64_t> acquire(const User& user, const LeaseRequest& request, std::string_view token);
  // For GPUs that the user's processes use without a lease; it begins now. `resource_exhausted`: also where they are
  // promised to another.
  Result<std::int64_t> adopt(const User& user, const LeaseRequest& request, std::string_view token);
  // The next two take the lease's token, or none: its user, who has proved who it is, may speak for all of its leases.
  // Makes the lease end `duration` from now if that is later. `resource_exhausted`: its GPUs are promised to another.
  // The audit log has a line of it at once, or, where there was one within kLinePause, of all renewals after that time.
  Status renew(const User& user, std::int64_t id, std::string_view token, Span duration);
  // Ends an open lease, or takes one out of the queue. Again: no change.
  Status release(const User& user, std::int64_t id, std::string_view token, std::string_view why);
  // The same without the token: an admin's, or of the lead of its team.
  Status revoke(const User& actor, std::int64_t id, std::string_view why);
  // Again: no change.
  Status exempt(const User& actor, std::int64_t id, std::string_view why);
  // `agent`: who tells it; empty: an admin, who may for every host.
  Status report(const HostReport& report, std::string_view agent = {});
  // The client of a lease that waits was there at this time.
  void touch(std::int64_t id, Time at) { touched_[id] = at; }
  // The client has learnt that its lease is open, as far as the pool knows: it has asked for it since then. No change
  // where the lease is not unclaimed, or another's.
  Status claim(const User& user, std::int64_t id);

  // The same again: no change.
  Status set_team(const User& actor, const Team& team);
  Status set_user(const User& actor, const User& user);
  Status remove_user(const User& actor, const std::string& name);
  // With its GPUs. `invalid_argument`: there is none, it is online, or a lease needs one of its GPUs.
  Status forget_host(const User& actor, const std::string& name);

  // In any state, also one that ended long ago. `invalid_argument`: there is none.
  Result<Lease> lease(std::int64_t id);

 private:
  Pool(Store store, Policy policy) : journal_(std::move(store)) { state_.policy = policy; }

  Turn turn() { return {state_, journal_, now_}; }
  Status save(Lease& lease) { return journal_.kept(journal_.store().save(lease)); }
  Result<std::optional<std::int64_t>> known(const User& user, const std::string& token_hash);
  Result<Lease*> own_lease(const User& user, std::int64_t id, std::string_view token);
  Status end(Lease& lease, Time at, std::string_view actor, std::string_view why);
  Status open_lease(Lease& lease, Time begins);
  Status tell(const ClockJump& jump);
  Status end_what_is_over();
  Status drop_abandoned();
  Status tell_renewal(Lease& lease);
  Status watch_lease(Lease& lease);
  Status watch_idle(Lease& lease);
  Status enter_phase(Lease& lease, IdlePhase phase);
  Status tell_idle(Lease& lease, std::string_view why);
  void move_times(Span by);
  void move_observed(Span by);
  Status apply_rules();
  Result<bool> refuse_those_that_do_not_wait(const Plan& plan);
  Result<Plan> make_plan();
  Status apply_plan(Plan plan);

  Journal journal_;
  State state_;
  Time now_ = {};
  Span moved_{0};                        // in this turn, with the clock
  std::optional<ClockMark> clock_mark_;  // as it is stored; nullopt: not known
  IdleWatch idle_;
  std::int64_t first_new_ = 0;            // lease of this turn
  std::map<std::int64_t, Time> touched_;  // of leases that need their clients
  UsageMeter usage_;
  HostBook hosts_;
};

}  // namespace xoe::pool

#include "pool/core/pool.h"

#include <algorithm>
#include <utility>

#include "core/base/constant_time.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "pool/core/limits.h"
#include "pool/core/next_event.h"
#include "pool/core/targets.h"
#include "pool/state/token.h"

namespace xoe::pool {
namespace {

std::string gpus_text(const std::vector<std::string>& gpus) { return fmt::format("{}", fmt::join(gpus, ",")); }

bool governs(const User& actor, const Lease& lease) {
  return actor.role == Role::kAdmin || (actor.role == Role::kLead && !actor.team.empty() && actor.team == lease.team);
}

// One that the actor may `doing` although it is another's.
Result<Lease*> governed_lease(State& state, const User& actor, std::int64_t id, std::string_view doing) {
  const auto found = state.leases.find(id);
  if (found == state.leases.end()) return failure(Code::kInvalidArgument, "lease {} is neither open nor waiting", id);
  if (governs(actor, found->second)) return &found->second;
  const std::string& team = found->second.team;
  return failure(Code::kInvalidArgument, "only an admin{}{} may {} lease {}",
                 team.empty() ? "" : " or the lead of team ", team, doing, id);
}

// For the audit log.
std::string describe(const User& user, bool new_token) {
  return fmt::format("{} {}, {}, priority up to {}{}{}", name_of(user.role),
                     user.team.empty() ? "without a team" : fmt::format("of team \"{}\"", user.team),
                     user.max_gpus == 0 ? "any number of GPUs" : "at most " + counted(user.max_gpus, "GPU"),
                     user.max_priority, user.idle_exempt ? ", idle-exempt" : "", new_token ? ", with a new token" : "");
}

// With the next number, which is taken once the lease is added.
Lease new_lease(const State& state, const User& user, const LeaseRequest& request, std::string token_hash, Time now) {
  return {.id = state.next_lease,
          .user = user.name,
          .team = user.team,
          .request = request,
          .token_hash = std::move(token_hash),
          .asked = now};
}

std::string jump_text(Span by) {
  return fmt::format("{} {}", span_text(std::chrono::abs(by)), by > Span(0) ? "ahead" : "behind");
}

bool has_queue(const State& state) {
  return std::ranges::any_of(state.leases, [](const auto& item) { return item.second.is_waiting(); });
}

// A lease that does not wait starts now or a moment later; a reservation needs no more than its time in the plan.
bool is_in_time(const PlannedLease& planned, const LeaseRequest& request, Time now) {
  return request.at ? planned.starts == request.at : planned.starts && *planned.starts <= now;
}

std::string refusal_of(const PlannedLease& planned) {
  if (!planned.starts) return "refused: " + planned.why;
  return fmt::format("refused: {}; with --wait it would start at {}", planned.why, time_text(*planned.starts));
}

std::string give_way_text(const GiveWay& asked) {
  return fmt::format("for lease {}{}", asked.for_lease, asked.by ? ", by " + time_text(*asked.by) : std::string());
}

}  // namespace

Result<Pool> Pool::open(Store store, Policy policy) {
  if (policy.idle.on && (policy.idle.window < kMinIdleWindow || policy.idle.no_process_window < kMinIdleWindow))
    return failure(Code::kInvalidArgument, "the idle window is {}; it must be {} at least",
                   span_text(std::min(policy.idle.window, policy.idle.no_process_window)), span_text(kMinIdleWindow));
  if (policy.give_way_grace < std::chrono::seconds(1))
    return failure(Code::kInvalidArgument, "holders need a second at least to give way, not {}",
                   span_text(policy.give_way_grace));
  Pool pool(std::move(store), policy);
  XOE_TRY(pool.abandon());
  return pool;
}

Status Pool::begin(Time now, const std::optional<ClockJump>& jump) {
  if (jump && jump->accepted) move_times(jump->by);
  const Time before = std::exchange(now_, time_of_turn(state_, touched_, now_, now));
  if (now_ < before) move_observed(now_ - before);
  journal_.begin_turn(now_);
  if (!state_.begun) state_.begun = now_;
  first_new_ = state_.next_lease;
  XOE_TRY(journal_.kept(journal_.store().begin()));
  if (jump) XOE_TRY(tell(*jump));
  XOE_TRY(end_what_is_over());
  XOE_TRY(drop_abandoned());
  return hosts_.watch(turn());
}

// And what is not stored, which a turn that is undone moves back.
void Pool::move_times(Span by) {
  xoe::pool::move_times(state_, touched_, by);
  move_observed(by);
  now_ += by;
  moved_ += by;
}

// Moves the times of what was seen, so that it stays as old as before.
void Pool::move_observed(Span by) {
  idle_.move_times(by);
  hosts_.move_times(by);
}

Status Pool::tell(const ClockJump& jump) {
  const std::string by = jump_text(jump.by);
  if (jump.over) return journal_.log(kPoolItself, "clock-right", 0, {}, "it is no longer " + by);
  if (!jump.accepted)
    return journal_.log(kPoolItself, "clock-jumped", 0, {},
                        fmt::format("the machine's clock is {}; leases go on as before, and after {} it is followed",
                                    by, span_text(WallClock::kAcceptAfter)));
  for (auto& [id, lease] : state_.leases) XOE_TRY(save(lease));
  return journal_.log(kPoolItself, "clock-set", 0, {},
                      "the clock was set " + by + "; open leases were moved by as much");
}

Status Pool::keep(const ClockMark& mark) {
  constexpr Span kDrift = std::chrono::seconds(5);
  if (clock_mark_ && clock_mark_->machine == mark.machine &&
      std::chrono::abs(clock_mark_->offset - mark.offset) < kDrift)
    return {};
  XOE_TRY(journal_.kept(journal_.store().save(mark)));
  clock_mark_ = mark;
  return {};
}

Status Pool::finish() {
  XOE_TRY(apply_rules());
  for (auto& [id, lease] : state_.leases)
    if (lease.is_open()) XOE_TRY(watch_lease(lease));
  const bool stores_usage = usage_.is_due(now_);
  if (stores_usage) XOE_TRY(journal_.kept(usage_.store_in(journal_.store(), now_)));
  XOE_TRY(journal_.kept(journal_.store().commit()));
  moved_ = Span(0);
  if (stores_usage) usage_.stored(now_);
  return {};
}

Status Pool::abandon() {
  journal_.store().rollback();
  XOE_ASSIGN(State loaded, journal_.store().load());
  move_times(-moved_);
  // What agents told is not stored and stays true.
  loaded.policy = state_.policy;
  loaded.begun = state_.begun;
  loaded.activity = std::move(state_.activity);
  loaded.vms = std::move(state_.vms);
  for (auto& [name, host] : loaded.hosts)
    if (const auto before = state_.hosts.find(name); before != state_.hosts.end()) {
      const Host& known = before->second;
      host.heard = known.heard;
      host.online = known.online;
      host.problem = known.problem;
      host.machine = known.machine;
      host.rival = known.rival;
      host.rival_heard = known.rival_heard;
    }
  std::erase_if(loaded.activity, [&](const auto& item) { return !loaded.gpus.contains(item.first); });
  std::erase_if(loaded.vms, [&](const auto& item) { return !loaded.hosts.contains(item.second.host); });
  state_ = std::move(loaded);
  clock_mark_.reset();
  hosts_.tell_again();
  journal_.begin_turn(now_);
  return {};
}

std::optional<Time> Pool::next_event() const { return xoe::pool::next_event(state_, touched_); }

// --- commands ---

Result<std::optional<std::int64_t>> Pool::known(const User& user, const std::string& token_hash) {
  auto found = journal_.store().find_lease(user.name, token_hash);
  if (!found) return failure(journal_.failed(found.error()));
  if (!*found) return std::optional<std::int64_t>();
  return std::optional((*found)->id);
}

Result<std::int64_t> Pool::acquire(const User& user, const LeaseRequest& request, std::string_view token) {
  XOE_TRY(check_token(token));
  XOE_TRY(check_form(request));
  std::string hash = hash_of_token(token);
  XOE_ASSIGN(const auto before, known(user, hash));
  if (before) {
    XOE_TRY(claim(user, *before));
    return *before;
  }
  XOE_TRY(check_request(state_, user, request, now_));
  XOE_ASSIGN(LeaseRequest placed, with_host_of_vm(state_, user, request));
  if (placed.at) placed.at = std::max(*placed.at, now_);
  Lease lease = new_lease(state_, user, placed, std::move(hash), now_);
  const std::int64_t id = lease.id;
  ++state_.next_lease;
  touch(id, now_);
  XOE_TRY(journal_.log(user.name, "asked", id, {},
                       fmt::format("{} for {}{}{}{}", counted(request.gpus, "GPU"), span_text(request.duration),
                                   request.vm.empty() ? "" : " for VM " + request.vm,
                                   request.purpose.empty() ? "" : ": ", request.purpose)));
  XOE_TRY(save(state_.leases.emplace(id, std::move(lease)).first->second));
  return id;
}

Result<std::int64_t> Pool::adopt(const User& user, const LeaseRequest& request, std::string_view token) {
  XOE_TRY(check_token(token));
  XOE_TRY(check_form(request));
  std::string hash = hash_of_token(token);
  XOE_ASSIGN(const auto before, known(user, hash));
  if (before) return *before;
  XOE_TRY(check_request(state_, user, request, now_));
  XOE_TRY(check_adoption(state_, user, request));
  Lease lease = new_lease(state_, user, request, std::move(hash), now_);
  lease.gpus = request.exact;
  lease.begins = now_;
  XOE_TRY(check_promises(state_, lease, now_ + request.duration, now_, "adopt: the lease"));
  const std::int64_t id = lease.id;
  ++state_.next_lease;
  Lease& stored = state_.leases.emplace(id, std::move(lease)).first->second;
  XOE_TRY(journal_.log(user.name, "adopted", id, gpus_text(stored.gpus), request.purpose));
  XOE_TRY(open_lease(stored, now_));
  return id;
}

Result<Lease*> Pool::own_lease(const User& user, std::int64_t id, std::string_view token) {
  const auto opens = [&](const Lease& lease) {
    return lease.user == user.name && (token.empty() || equal_in_constant_time(lease.token_hash, hash_of_token(token)));
  };
  const auto refused = [&] {
    return failure(Code::kInvalidArgument, "lease {}: there is none of {}{}", id, user.name,
                   token.empty() ? "" : " with this token");
  };
  if (const auto found = state_.leases.find(id); found != state_.leases.end()) {
    if (!opens(found->second)) return refused();
    return &found->second;
  }
  auto ended = journal_.store().find_lease(id);
  if (!ended) return failure(journal_.failed(ended.error()));
  if (!*ended || !opens(**ended)) return refused();
  return nullptr;
}

Status Pool::renew(const User& user, std::int64_t id, std::string_view token, Span duration) {
  XOE_ASSIGN(Lease* const lease, own_lease(user, id, token));
  if (lease == nullptr) return failure(Code::kInvalidArgument, "lease {} has ended; acquire another", id);
  if (!lease->is_open()) return failure(Code::kInvalidArgument, "lease {} waits: it has no end to move", id);
  XOE_TRY(check_duration(state_.policy, duration));
  XOE_TRY(claim(user, id));
  const Time until = now_ + duration;
  if (until <= lease->expires) return {};
  if (lease->give_way && lease->give_way->by)
    return failure(Code::kResourceExhausted, "lease {} has to give way by {}", id, time_text(*lease->give_way->by));
  XOE_TRY(check_promises(state_, *lease, until, now_, fmt::format("lease {}", id)));
  lease->expires = until;
  if (*lease->renewal_due() <= now_) return tell_renewal(*lease);
  return save(*lease);
}

// Warns of its new end again.
Status Pool::tell_renewal(Lease& lease) {
  lease.logged.expires = lease.expires;
  lease.logged.renewed = now_;
  lease.expiry_warned = false;
  XOE_TRY(journal_.log(lease.user, "renewed", lease.id, gpus_text(lease.gpus), "until " + time_text(lease.expires)));
  return save(lease);
}

Status Pool::claim(const User& user, std::int64_t id) {
  const auto found = state_.leases.find(id);
  if (found == state_.leases.end() || !found->second.unclaimed || found->second.user != user.name) return {};
  found->second.unclaimed = false;
  touched_.erase(id);
  XOE_TRY(journal_.log(user.name, "claimed", id, gpus_text(found->second.gpus), {}));
  return save(found->second);
}

Status Pool::release(const User& user, std::int64_t id, std::string_view token, std::string_view why) {
  XOE_ASSIGN(Lease* const lease, own_lease(user, id, token));
  if (lease == nullptr) return {};
  return end(*lease, now_, user.name, why);
}

Status Pool::revoke(const User& actor, std::int64_t id, std::string_view why) {
  XOE_TRY(check_visible("why", why));
  XOE_ASSIGN(Lease* const lease, governed_lease(state_, actor, id, "end"));
  return end(*lease, now_, actor.name, why);
}

Status Pool::exempt(const User& actor, std::int64_t id, std::string_view why) {
  XOE_TRY(check_visible("why", why));
  XOE_ASSIGN(Lease* const lease, governed_lease(state_, actor, id, "exempt"));
  if (std::exchange(lease->idle_exempt, true)) return {};
  XOE_TRY(journal_.log(actor.name, "exempted", id, gpus_text(lease->gpus), why));
  return save(*lease);
}

Status Pool::set_team(const User& actor, const Team& team) {
  XOE_TRY(check_team(state_, team));
  const auto known = state_.teams.find(team.name);
  if (known != state_.teams.end() && known->second == team) return {};
  state_.teams[team.name] = team;
  XOE_TRY(journal_.log(actor.name, "team", 0, team.name,
                       fmt::format("quota {}{}", team.quota, team.may_borrow ? "" : ", may not borrow")));
  return journal_.kept(journal_.store().save(team));
}

Status Pool::set_user(const User& actor, const User& user) {
  XOE_TRY(check_user(state_, user));
  User& stored = state_.users[user.name];
  if (stored == user) return {};
  const bool new_token = stored.token_hash != user.token_hash;
  stored = user;
  XOE_TRY(journal_.log(actor.name, "user", 0, user.name, describe(user, new_token)));
  return journal_.kept(journal_.store().save(user));
}

Status Pool::remove_user(const User& actor, const std::string& name) {
  if (state_.users.erase(name) == 0) return failure(Code::kInvalidArgument, "there is no user {}", name);
  XOE_TRY(journal_.log(actor.name, "user-removed", 0, name, {}));
  return journal_.kept(journal_.store().remove_user(name));
}

Status Pool::forget_host(const User& actor, const std::string& name) { return hosts_.forget_host(turn(), actor, name); }

Status Pool::report(const HostReport& report, std::string_view agent) {
  const auto known = state_.hosts.find(report.host);
  const Span since = known == state_.hosts.end() ? Span(0) : now_ - known->second.heard;
  XOE_TRY(hosts_.take(turn(), report, agent));
  for (const std::int64_t id : forbidden_waits(state_)) {
    Lease& lease = state_.leases.at(id);
    XOE_TRY(end(lease, now_, kPoolItself, fmt::format("VM {} is not for {} any more", lease.request.vm, lease.user)));
  }
  const Span stands_for = std::min(since, state_.policy.host_timeout);
  idle_.observe(state_, report, stands_for, now_);
  usage_.observe(state_, report, stands_for, now_);
  return {};
}

Result<Lease> Pool::lease(std::int64_t id) {
  if (const auto found = state_.leases.find(id); found != state_.leases.end()) return found->second;
  XOE_ASSIGN(auto ended, journal_.store().find_lease(id));
  if (!ended) return failure(Code::kInvalidArgument, "there is no lease {}", id);
  return std::move(*ended);
}

// --- the life of a lease ---

Status Pool::open_lease(Lease& lease, Time begins) {
  lease.state = LeaseState::kOpen;
  lease.begins = begins;
  lease.expires = begins + lease.request.duration;
  lease.logged = {.expires = lease.expires};
  lease.starts.reset();
  lease.position = 0;
  lease.unclaimed = lease.id < first_new_ && !lease.request.at;
  if (lease.unclaimed)
    touched_[lease.id] = now_;
  else
    touched_.erase(lease.id);
  lease.why.clear();
  XOE_TRY(journal_.log(kPoolItself, "granted", lease.id, gpus_text(lease.gpus), "until " + time_text(lease.expires)));
  return save(lease);
}

Status Pool::end(Lease& lease, Time at, std::string_view actor, std::string_view why) {
  const bool held = lease.is_open();
  if (lease.renewal_due()) XOE_TRY(tell_renewal(lease));
  lease.state = LeaseState::kEnded;
  lease.ended = at;
  lease.why = why;
  XOE_TRY(journal_.log(actor, "ended", lease.id, held ? gpus_text(lease.gpus) : std::string(), why));
  XOE_TRY(save(lease));
  for (const std::string& gpu : lease.gpus)
    if (const auto seen = state_.activity.find(gpu); held && seen != state_.activity.end()) {
      if (seen->second.open_to) seen->second.open_to->clear();
      // A process, a VM or a job may still have it: the next report tells.
      seen->second.stale_since = now_;
    }
  idle_.forget(lease.id);
  touched_.erase(lease.id);
  state_.leases.erase(lease.id);
  return {};
}

Status Pool::end_what_is_over() {
  std::vector<Lease*> over;
  for (auto& [id, lease] : state_.leases)
    if (lease.is_open() && lease.ends() <= now_) over.push_back(&lease);
  for (Lease* const lease : over) {
    const bool gave_way = lease->ends() < lease->expires;
    XOE_TRY(end(*lease, lease->ends(), kPoolItself,
                gave_way ? fmt::format("gave way to lease {}", lease->give_way->for_lease) : "its time was over"));
  }
  return {};
}

// Those whose clients are gone must neither get nor keep GPUs that no process would use.
Status Pool::drop_abandoned() {
  for (const std::int64_t id : abandoned_leases(state_, touched_, now_)) {
    Lease& lease = state_.leases.at(id);
    XOE_TRY(end(lease, now_, kPoolItself,
                fmt::format("its client was silent for {}{}", span_text(state_.policy.waiting_timeout),
                            lease.is_open() ? " since it was granted" : "")));
  }
  return {};
}

Status Pool::watch_lease(Lease& lease) {
  if (const auto due = lease.renewal_due(); due && *due <= now_) XOE_TRY(tell_renewal(lease));
  if (lease.expiry_warned || now_ < warning_time(state_.policy, lease)) return {};
  lease.expiry_warned = true;
  XOE_TRY(journal_.log(kPoolItself, "expiry-warned", lease.id, lease.user, "ends at " + time_text(lease.ends())));
  return save(lease);
}

Status Pool::watch_idle(Lease& lease) {
  const IdlePolicy& policy = state_.policy.idle;
  const IdleAssessment assessment = idle_.assess(state_, lease, now_);
  if (!assessment.idle) {
    if (lease.idle_phase == IdlePhase::kBusy) return {};
    if (!std::exchange(lease.logged.is_idle_news, false))
      XOE_TRY(journal_.log(kPoolItself, "idle-over", lease.id, lease.user, "it is used again"));
    return enter_phase(lease, IdlePhase::kBusy);
  }
  switch (lease.idle_phase) {
    case IdlePhase::kBusy:
      lease.logged.is_idle_news = true;
      XOE_TRY(enter_phase(lease, IdlePhase::kWarned));
      return tell_idle(lease, assessment.why);
    case IdlePhase::kWarned:
      if (now_ - lease.idle_phase_since < policy.warn_grace) return tell_idle(lease, assessment.why);
      lease.logged.is_idle_news = false;
      XOE_TRY(journal_.log(kPoolItself, "idle-signalled", lease.id, lease.user, assessment.why));
      return enter_phase(lease, IdlePhase::kSignalled);
    case IdlePhase::kSignalled:
      if (now_ - lease.idle_phase_since < policy.signal_grace) return {};
      return end(lease, now_, kPoolItself, "idle: " + assessment.why);
  }
  return {};
}

Status Pool::enter_phase(Lease& lease, IdlePhase phase) {
  lease.idle_phase = phase;
  lease.idle_phase_since = now_;
  return save(lease);
}

// The user is warned once in a while of a lease that is idle again and again.
Status Pool::tell_idle(Lease& lease, std::string_view why) {
  if (!lease.logged.is_idle_news || now_ - lease.logged.idle < kLinePause) return {};
  lease.logged.is_idle_news = false;
  lease.logged.idle = now_;
  return journal_.log(kPoolItself, "idle-warned", lease.id, lease.user, why);
}

// --- planning ---

Status Pool::apply_rules() {
  if (state_.policy.idle.on) {
    std::vector<Lease*> due;
    for (auto& [id, lease] : state_.leases)
      if (lease.is_open() && idle_.is_due(id, now_)) due.push_back(&lease);
    idle_.judged(now_);
    for (Lease* const lease : due) XOE_TRY(watch_idle(*lease));
  }
  for (const std::int64_t id : calls_that_are_over(state_)) {
    Lease& lease = state_.leases.at(id);
    lease.give_way.reset();
    XOE_TRY(
        journal_.log(kPoolItself, "give-way-over", id, lease.user, "the more important lease does not wait any more"));
    XOE_TRY(save(lease));
  }
  XOE_ASSIGN(Plan plan, make_plan());
  return apply_plan(std::move(plan));
}

// Without those that it refuses: what would be for them changes nothing for others.
Result<Plan> Pool::make_plan() {
  for (;;) {
    Plan plan = has_queue(state_) ? plan_leases(state_, now_) : Plan();
    XOE_ASSIGN(const bool refused, refuse_those_that_do_not_wait(plan));
    if (!refused) return plan;
  }
}

Status Pool::apply_plan(Plan plan) {
  for (const GiveWayCall& call : plan.calls) {
    Lease& lease = state_.leases.at(call.lease);
    lease.give_way = call.give_way;
    XOE_TRY(journal_.log(kPoolItself, "give-way", lease.id, lease.user, give_way_text(call.give_way)));
    XOE_TRY(save(lease));
  }
  for (PlannedLease& planned : plan.waiting) {
    Lease& lease = state_.leases.at(planned.lease);
    const bool moved = lease.starts != planned.starts || lease.gpus != planned.gpus;
    const bool later = lease.starts && (!planned.starts || *planned.starts > *lease.starts);
    lease.position = planned.position;
    lease.borrowed = planned.borrowed;
    lease.why = std::move(planned.why);
    lease.starts = planned.starts;
    lease.gpus = std::move(planned.gpus);
    if (lease.starts) lease.logged.promised = std::min(*lease.starts, lease.logged.promised.value_or(*lease.starts));
    if (lease.starts && *lease.starts <= now_ && !state_.awaits_report(lease)) {
      XOE_TRY(open_lease(lease, *lease.starts));
      continue;
    }
    if (lease.request.at && !lease.request.wait) {
      lease.request.wait = true;  // a reservation that has its time waits for it
      XOE_TRY(
          journal_.log(kPoolItself, "reserved", lease.id, gpus_text(lease.gpus), "from " + time_text(*lease.starts)));
      XOE_TRY(save(lease));
    }
    lease.logged.is_late |= later;
    if (lease.logged.is_late && now_ - lease.logged.postponed >= kLinePause) {
      lease.logged.postponed = now_;
      lease.logged.is_late = false;
      XOE_TRY(journal_.log(kPoolItself, "postponed", lease.id, lease.user, lease.why));
    }
    if (moved) XOE_TRY(save(lease));
  }
  return {};
}

// Whether any was refused, after which others may have more room.
Result<bool> Pool::refuse_those_that_do_not_wait(const Plan& plan) {
  bool any = false;
  for (const PlannedLease& planned : plan.waiting) {
    Lease& lease = state_.leases.at(planned.lease);
    if (lease.request.wait || is_in_time(planned, lease.request, now_)) continue;
    XOE_TRY(end(lease, now_, kPoolItself, refusal_of(planned)));
    any = true;
  }
  return any;
}

}  // namespace xoe::pool

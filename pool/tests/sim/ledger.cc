#include "pool/tests/sim/ledger.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/text.h"
#include "pool/tests/sim/world.h"

namespace xoe::pool::sim_tests {
namespace {

using sim::kSecond;

constexpr sim::Time kSlack = 8 * kSecond;        // of a server that wakes each five seconds
constexpr sim::Time kStartsAsOf = 30 * kSecond;  // a lease may begin as of its planned start
constexpr sim::Time kFollowed = 32 * kSecond;    // a smaller jump of the clock is followed
constexpr sim::Time kReaps = 60 * kSecond;       // from the end of a `run` to that of its lease
constexpr Span kWaitingTimeout = std::chrono::minutes(2);
constexpr sim::Time kStarts = 12 * kSecond;    // from the grant to a look that sees the program compute
constexpr sim::Time kWindows = 200 * kSecond;  // of idleness
constexpr sim::Time kIdleEnds = 90 * kSecond;  // without a process: window, warning, signal

sim::Time span(Span value) { return value.count() * sim::kMilli; }
double seconds(sim::Time time) { return static_cast<double>(time) / 1e9; }

}  // namespace

// With XOE_SIM_TRAP a debugger stops here, where all threads are as they were.
void Ledger::problem(std::string text) {
  if (std::getenv("XOE_SIM_TRAP") != nullptr) __builtin_trap();
  if (problems.size() < 20) problems.push_back(fmt::format("at {:.3f} s: {}", seconds(at_), text));
}

std::int64_t Ledger::first_lease() const {
  for (const auto& [id, seen] : leases_)
    if (!seen.ended) return id;
  return leases_.empty() ? 0 : leases_.rbegin()->first;
}

std::vector<std::int64_t> Ledger::open() const {
  std::vector<std::int64_t> ids;
  for (const auto& [id, seen] : leases_)
    if (!seen.ended) ids.push_back(id);
  return ids;
}

void Ledger::jumped(sim::Time by) { slack_ += std::min(std::abs(by), kFollowed); }

void Ledger::lost_its_clock() {
  for (auto& [id, seen] : leases_)
    if (!seen.ended) seen.is_exempt = seen.may_be_late = true;
}

void Ledger::look(const Snapshot& now, sim::Time at, bool serves) {
  before_ = at_;
  at_ = at;
  serves_ = serves;
  for (const auto& [id, row] : now.leases) {
    Seen& seen = leases_[id];
    if (seen.row.id == 0)
      seen.row = {.id = id, .user = row.user, .team = row.team, .state = "waiting", .priority = row.priority};
  }
  for (const pool::Event& event : now.events) replay(event);
  check_rows(now);
  check_told();
}

void Ledger::replay(const pool::Event& event) {
  if (event.number != last_event_ + 1)
    problem(fmt::format("the audit log goes on with line {} after {}", event.number, last_event_));
  last_event_ = event.number;
  audit += fmt::format("{:9.3f} {} {} {} {} {} {}: {}\n", seconds(at_), event.number, time_text(event.at), event.actor,
                       event.kind, event.lease, event.subject, event.why);
  static const std::set<std::string> kExcuses = {"host-offline", "unleased-use", "gpu-forgotten", "clock-set",
                                                 "gpu-changed",  "adopted",      "host-changed",  "host-forgotten"};
  if (kExcuses.contains(event.kind))
    for (auto& [id, seen] : leases_)
      if (!seen.ended) seen.may_be_late = true;
  if (event.lease == 0) return;
  if (!leases_.contains(event.lease)) {
    problem(fmt::format("the audit log tells of lease {} ({}), which is not there", event.lease, event.kind));
    return;
  }
  Seen& seen = leases_.at(event.lease);
  if (event.kind == "asked")
    for (auto& [id, other] : leases_)
      if (!other.ended && other.row.priority < seen.row.priority) other.may_be_late = true;
  if (event.kind == "granted") grant(seen, event);
  if (event.kind == "claimed") seen.claimed = true;
  if (event.kind == "give-way") seen.asked_to_give_way = true;
  if (event.kind == "idle-warned" && is_computing(seen, before_))
    problem(fmt::format("lease {} counts as idle, and its program computes since {:.3f} s", event.lease,
                        seconds(seen.computing_since)));
  if (event.kind == "ended") end(seen, event);
  if (event.kind == "granted" || event.kind == "ended") check_limits(event);
}

void Ledger::grant(Seen& seen, const pool::Event& event) {
  if (seen.granted || seen.ended) problem(fmt::format("lease {} is granted once more", event.lease));
  seen.granted = true;
  seen.granted_after = before_;
  seen.granted_before = at_;
  for (const std::string& gpu : split_text(event.subject, ',')) {
    const auto [holder, is_free] = holders_.emplace(gpu, event.lease);
    const auto heard = heard_.find(gpu.substr(4, gpu.rfind('-') - 4));  // GPU-HOST-0
    const sim::Time silent = heard == heard_.end() ? 0 : before_ - heard->second;
    if (silent > schedule_.host_timeout + schedule_.report_interval + kSlack + slack_)
      problem(fmt::format("lease {} gets {}, whose host is silent for {:.3f} s", event.lease, gpu, seconds(silent)));
    if (!is_free) problem(fmt::format("lease {} gets {}, which lease {} holds", event.lease, gpu, holder->second));
  }
}

void Ledger::end(Seen& seen, const pool::Event& event) {
  if (seen.ended) problem(fmt::format("lease {} ends once more", event.lease));
  seen.ended = true;
  seen.ended_after = before_;
  seen.ended_before = at_;
  std::erase_if(holders_, [&](const auto& item) { return item.second == event.lease; });
}

void Ledger::check_limits(const pool::Event& event) {
  std::map<std::string, int> by_team, by_user;
  for (const auto& [gpu, lease] : holders_) {
    ++by_team[leases_.at(lease).row.team];
    ++by_user[leases_.at(lease).row.user];
  }
  for (std::size_t i = 0; i < schedule_.teams.size(); ++i)
    if (const Team& team = schedule_.teams[i]; !team.may_borrow && by_team[fmt::format("t{}", i)] > team.quota)
      problem(fmt::format("team t{} holds {} GPUs with lease {}; its quota is {}", i, by_team[fmt::format("t{}", i)],
                          event.lease, team.quota));
  for (std::size_t i = 0; i < schedule_.users.size(); ++i)
    if (const User& user = schedule_.users[i]; user.max_gpus > 0 && by_user[fmt::format("u{}", i)] > user.max_gpus)
      problem(fmt::format("u{} holds {} GPUs with lease {}; it may hold {}", i, by_user[fmt::format("u{}", i)],
                          event.lease, user.max_gpus));
}

void Ledger::check_rows(const Snapshot& now) {
  for (auto& [id, seen] : leases_) {
    const auto row = now.leases.find(id);
    if (row == now.leases.end()) {
      if (!seen.ended) problem(fmt::format("lease {} is lost: the database has it no more", id));
      continue;
    }
    check_row(seen, row->second);
  }
}

void Ledger::check_row(Seen& seen, const LeaseRow& row) {
  const std::string is = seen.ended ? "ended" : seen.granted ? "open" : "waiting";
  if (row.state != is) problem(fmt::format("lease {} is {}; the audit log says that it is {}", row.id, row.state, is));
  const bool was_open = seen.row.state == "open";
  if (was_open && row.gpus != seen.row.gpus)
    problem(
        fmt::format("lease {} had {}, and has {}", row.id, fmt::join(seen.row.gpus, ","), fmt::join(row.gpus, ",")));
  const auto held = std::ranges::count_if(holders_, [&](const auto& item) { return item.second == row.id; });
  if (row.holds != held)
    problem(fmt::format("lease {} holds {} GPUs in the database; the audit log says {}", row.id, row.holds, held));
  const bool has_begun = row.state != "waiting" && seen.row.state == "waiting";
  if (row.state == "waiting" && row.starts)
    seen.promised = std::min(row.starts.value(), seen.promised.value_or(*row.starts));
  seen.may_be_late |= row.borrowed;
  if (has_begun && seen.granted && seen.promised && calm_ && !seen.may_be_late) {
    const sim::Time late = span(row.begins - *seen.promised);
    if (late > 3 * schedule_.report_interval + kSlack)
      problem(fmt::format("lease {} was promised to begin {:.3f} s earlier, and nothing excuses that", row.id,
                          seconds(late)));
  }
  const bool ends = row.state == "ended" && seen.row.state != "ended";
  seen.row = row;
  if (ends && seen.granted) check_end(seen);
  if (row.state == "open") {
    check_open(seen);
    check_idle(seen);
  }
}

// The length that the database tells is the one that it had, whatever the clocks showed.
void Ledger::check_end(const Seen& seen) {
  const LeaseRow& row = seen.row;
  const sim::Time told = span(row.ended - row.begins);
  if (seen.is_exempt) slack_ += std::abs(told);
  held_[row.user] += std::max(row.ended - row.begins, Span(0)) * static_cast<std::int64_t>(row.gpus.size());
  const sim::Time longest = seen.ended_before - seen.granted_after + kSlack + slack_ + kStartsAsOf;
  const sim::Time shortest = seen.ended_after - seen.granted_before - kSlack - slack_;
  if (!seen.is_exempt && told > longest)
    problem(fmt::format("lease {} lasted for {:.3f} s at most, and counts {:.3f} s", row.id, seconds(longest),
                        seconds(told)));
  if (!seen.is_exempt && told < shortest && serves_)
    problem(fmt::format("lease {} lasted for {:.3f} s at least, and counts {:.3f} s", row.id, seconds(shortest),
                        seconds(told)));
  const bool over = row.why == "its time was over", gave_way = row.why.starts_with("gave way to");
  const bool silent = row.why.starts_with("its client was silent"), idle = row.why.starts_with("idle:");
  if (!over && !gave_way && !silent && !idle && row.why != "released" && row.why != "revoked in the simulation")
    problem(fmt::format("lease {} ends, and the reason is none: {}", row.id, row.why));
  if (over && row.ended != row.expires)
    problem(fmt::format("lease {} ends as its time was over at {}, which is {}", row.id, time_text(row.ended),
                        time_text(row.expires)));
  if (gave_way && (!seen.asked_to_give_way || !schedule_.reclaims))
    problem(fmt::format("lease {} ends to give way, and was never asked to", row.id));
  if (silent && seen.claimed) problem(fmt::format("lease {} is claimed, and ends as its client was silent", row.id));
  if (silent && !seen.is_exempt && longest < span(kWaitingTimeout))
    problem(fmt::format("lease {} ends after {:.3f} s, as its client was silent", row.id, seconds(longest)));
  if (idle && !schedule_.reclaims_idle) problem(fmt::format("lease {} is taken as idle, which is off", row.id));
  if (idle && is_computing(seen, seen.ended_after))
    problem(fmt::format("lease {} is taken as idle, and its program computes since {:.3f} s", row.id,
                        seconds(seen.computing_since)));
}

void Ledger::check_open(const Seen& seen) {
  if (!serves_ || seen.is_exempt) return;
  const sim::Time age = at_ - seen.granted_before;
  if (seen.row.unclaimed && age > span(kWaitingTimeout) + kSlack + slack_)
    problem(
        fmt::format("lease {} is open for {:.3f} s, and its client has not asked for it", seen.row.id, seconds(age)));
  if (const auto run = ended_runs_.find(seen.row.purpose);
      connected_ && run != ended_runs_.end() && at_ - run->second > kReaps)
    problem(fmt::format("lease {} is open, and its `xoe pool run` is gone since {:.3f} s", seen.row.id,
                        seconds(run->second)));
  const sim::Time late = age - span(seen.row.length()) - kSlack - slack_ - kStartsAsOf;
  if (late > 0)
    problem(fmt::format("lease {} of {:.3f} s is open for {:.3f} s", seen.row.id, seconds(span(seen.row.length())),
                        seconds(age)));
}

// Whether its programs compute, or nothing uses it.
void Ledger::check_idle(Seen& seen) {
  bool busy = false, any = false;
  for (const auto& [pid, one] : world->computing) {
    if (one.lease != seen.row.id || sim::facts_of(pid).ended) continue;
    any = true;
    busy |= one.busy;
  }
  seen.was_idle |= !busy;
  if (!busy) seen.computing_since = -1;
  if (busy && seen.computing_since < 0) seen.computing_since = at_;
  for (const auto& [pid, one] : world->computing)  // also what has no lease
    for (const std::string& gpu : seen.row.gpus)
      if (one.gpus.contains(gpu) && !sim::facts_of(pid).ended) seen.used_at = at_;
  if (any || !calm_ || !schedule_.reclaims_idle || schedule_.report_interval > 60 * kSecond) return;
  const sim::Time age = at_ - std::max(seen.granted_before, seen.used_at);
  if (serves_ && age > kIdleEnds + 4 * schedule_.report_interval + kSlack)
    problem(fmt::format("lease {} is used by nothing for {:.3f} s, and still open", seen.row.id, seconds(age)));
}

// Whether it computes since it has the lease, or for longer than the windows.
bool Ledger::is_computing(const Seen& seen, sim::Time until) const {
  return seen.computing_since >= 0 && schedule_.report_interval < 60 * kSecond &&
         (seen.computing_since - seen.granted_before < kStarts || until - seen.computing_since > kWindows);
}

// What clients were told is so.
void Ledger::check_told() {
  for (const auto& [id, gpus] : told_) {
    const auto found = leases_.find(id);
    if (found == leases_.end() || !found->second.granted) {
      problem(fmt::format("a client was told of lease {}, which the pool has not granted", id));
      continue;
    }
    if (auto have = found->second.row.gpus; have != gpus) {
      std::vector<std::string> wanted = gpus;
      std::ranges::sort(have);
      std::ranges::sort(wanted);
      if (have != wanted)
        problem(fmt::format("a client was told that lease {} has {}; it has {}", id, fmt::join(gpus, ","),
                            fmt::join(found->second.row.gpus, ",")));
    }
  }
  told_.clear();
}

void Ledger::conclude(const Snapshot& last, std::size_t open) {
  std::vector<std::int64_t> left;
  for (const auto& [id, row] : last.leases)
    if (row.state != "ended") left.push_back(id);
  if (left.size() != open)
    problem(fmt::format("all leases were ended but {} new ones, and the database has {}", open, fmt::join(left, ", ")));
  for (const auto& [id, seen] : leases_)
    if (seen.granted && !seen.ended)
      held_[seen.row.user] +=
          Span((at_ - seen.granted_after) / sim::kMilli) * static_cast<std::int64_t>(seen.row.gpus.size());
  for (const auto& [user, seen] : last.seen_use)
    if (const Span held = held_[user]; seen > held + std::chrono::seconds(60) + Span(slack_ / sim::kMilli))
      problem(fmt::format("{} held GPUs for {} s, and was seen to use them for {} s", user, held.count() / 1000,
                          seen.count() / 1000));
}

}  // namespace xoe::pool::sim_tests

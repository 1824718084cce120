#include "launch/tests/sim/scenario.h"

#include <signal.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/text.h"
#include "core/bootstrap/failing_rank.h"
#include "launch/tests/sim/journal.h"
#include "launch/tests/sim/ledger.h"
#include "launch/tests/sim/programs.h"
#include "launch/tests/sim/schedule.h"
#include "launch/tests/sim/training.h"

namespace xoe::launch::sim_tests {
namespace {

// A job that ended must be gone after so long; members that wait for member 0 give up after 300 s.
constexpr sim::Time kLongestEnd = 400 * sim::kSecond;
// With all links whole and no host standing still: a silent host is named after 10 s.
constexpr sim::Time kRecovers = 90 * sim::kSecond;

constexpr sim::Time kNamesHost = 10 * sim::kSecond;
constexpr sim::Time kEndsSilent = kNamesHost + 3 * sim::kSecond;  // a rank that lives, and is not heard
constexpr sim::Time kGoesOn = sim::kSecond;
constexpr sim::Time kJoins = 3 * sim::kSecond;

double seconds(sim::Time time) { return static_cast<double>(time) / 1e9; }

class ElasticJob {
 public:
  ElasticJob(std::uint64_t seed, const std::set<std::size_t>& without, std::string secret)
      : schedule_(schedule_of(seed)), without_(without), secret_(std::move(secret)) {}

  const sim::Options& options() const { return schedule_.options; }

  sim::Outcome run() {
    sim::add_program("xoe", &xoe_program);
    sim::add_program("training", &training);
    for (int i = 0; i < schedule_.hosts; ++i)
      hosts_.push_back(sim::add_host(fmt::format("h{}", i), fmt::format("10.0.0.{}", i + 1)));
    members_.resize(hosts_.size());
    back_at_.resize(hosts_.size());
    for (std::size_t i = 0; i < hosts_.size(); ++i) start(i);
    for (std::size_t i = 0; i < schedule_.events.size(); ++i)
      if (!without_.contains(i)) plan(i);
    if (schedule_.done_at > 0) actions_.emplace(schedule_.done_at, [this] { finish(); });
    while (sim::now() < schedule_.length) turn();
    heal();
    const sim::Time healed = sim::now();
    const auto steps = journal->steps.size();
    while (!over_ && leads() && !goes_on(steps) && sim::now() < healed + kRecovers) turn();
    if (!over_ && leads() && !goes_on(steps))
      problem(fmt::format("{} within {:.0f} s after all was whole again at {:.3f} s",
                          journal->steps.size() == steps ? "no step"
                                                         : fmt::format("no step of all {} ranks, but of {}",
                                                                       all_ranks(), journal->steps.back().size),
                          seconds(kRecovers), seconds(healed)));
    finish();
    end();
    check();
    return outcome_;
  }

 private:
  using Kind = Event::Kind;
  // With XOE_SIM_TRAP a debugger stops here, where all threads are as they were.
  void problem(std::string text) {
    if (std::getenv("XOE_SIM_TRAP") != nullptr) __builtin_trap();
    outcome_.problems.push_back(std::move(text));
  }
  void tell(const std::string& line) {
    told_.emplace(sim::now(), fmt::format("{:9.3f} *** {}\n", seconds(sim::now()), line));
  }

  bool runs(std::size_t host) const { return members_[host] != 0 && !sim::facts_of(members_[host]).ended; }
  bool is_on(std::size_t host) const { return !off_.contains(host); }
  bool leads() const { return runs(0) && is_on(0); }
  int all_ranks() const {
    int all = 0;
    for (std::size_t host = 0; host < hosts_.size(); ++host) all += runs(host) && is_on(host) ? schedule_.ranks : 0;
    return all;
  }
  // With all ranks that there are, since the journal had so many steps; but for those that were left out for good.
  bool goes_on(std::size_t steps) const {
    if (journal->steps.size() == steps) return false;
    return journal->steps.back().size == all_ranks() || hosts_[0].output().find(" is left out: ") != std::string::npos;
  }

  void start(std::size_t host) {
    const std::vector<std::string> variables = {"PATH=/sim", "HOME=/nowhere", "XOE_ARENA_BYTES=268435456",
                                                "XOE_RENDEZVOUS_SECRET_FILE=" + secret_,
                                                "XOE_PLUGIN_DIR=" XOE_SIM_PLUGINS};
    members_[host] =
        hosts_[host].start({"/sim/xoe", "run", "--rendezvous", "10.0.0.1:29500", "--node-rank", fmt::format("{}", host),
                            "--nodes", fmt::format("1:{}", hosts_.size()), "-np", fmt::format("{}", schedule_.ranks),
                            "--restarts", "1000", "/sim/training", fmt::format("{}", schedule_.commit_every),
                            fmt::format("{}", schedule_.step / sim::kMicro), schedule_.sums},
                           variables);
    started_[static_cast<int>(host)] = sim::now();
    tell(fmt::format("h{} starts its member", host));
  }

  void finish() {
    if (std::exchange(over_, true)) return;
    tell("the training is done");
    journal->stop = true;
  }

  void plan(std::size_t index) {
    const Event& event = schedule_.events[index];
    actions_.emplace(event.at, [this, &event, index] {
      tell(fmt::format("{}: {}", index, to_text(event)));
      apply(event);
    });
  }

  void after(sim::Time time, std::function<void()> action) { actions_.emplace(sim::now() + time, std::move(action)); }

  void cut(int from, int to, sim::Time lasts) {
    const auto set = [this, from, to](bool cuts) {
      sim::cut_link(hosts_[static_cast<std::size_t>(from)], hosts_[static_cast<std::size_t>(to)], cuts);
    };
    set(true);
    after(lasts, [set] { set(false); });
  }

  std::vector<pid_t> ranks_of(std::size_t host) const {
    std::vector<pid_t> found;
    for (const auto& one : sim::running())
      if (one.host == hosts_[host].name() && one.name == "training") found.push_back(one.pid);
    return found;
  }

  pid_t any_rank(std::size_t host) const {
    const auto ranks = ranks_of(host);
    return ranks.empty() ? 0 : ranks[sim::draw(ranks.size())];
  }

  pid_t supervisor_of(std::size_t host) const {
    for (const auto& one : sim::running())
      if (one.host == hosts_[host].name() && one.name == "xoe" && one.pid != members_[host]) return one.pid;
    return 0;
  }

  void apply(const Event& event) {
    const auto host = static_cast<std::size_t>(event.host);
    if (event.kind != Kind::kJump) touched_.insert({event.host, sim::now()});
    if (event.kind != Kind::kJump && (event.kind != Kind::kLeave || event.host == 0))
      harmed_at_ = std::min(harmed_at_, sim::now());
    if (event.kind == Kind::kPause || event.kind == Kind::kStopRank || event.kind == Kind::kIsolate)
      apart_.insert({event.host, sim::now()});
    if (event.kind == Kind::kCut || event.kind == Kind::kHalfCut) touched_.insert({event.other, sim::now()});
    if (event.host == 0 && (event.kind == Kind::kKillMember || event.kind == Kind::kLeave ||
                            event.kind == Kind::kSwitchOff || event.kind == Kind::kPause))
      launcher_lost_at_ = std::min(launcher_lost_at_, sim::now());
    if (event.kind == Kind::kIsolate)
      for (int other = 0; other < schedule_.hosts; ++other) touched_.insert({other, sim::now()});
    switch (event.kind) {
      case Kind::kKillRank: sim::signal_process(any_rank(host), SIGKILL); break;
      case Kind::kKillSupervisor: sim::signal_process(supervisor_of(host), SIGKILL); break;
      case Kind::kKillMember:
      case Kind::kLeave:
        sim::signal_process(members_[host], event.kind == Kind::kLeave ? SIGTERM : SIGKILL);
        back_at_[host] = sim::now() + event.lasts;
        break;
      case Kind::kCut:
        cut(event.host, event.other, event.lasts);
        cut(event.other, event.host, event.lasts);
        break;
      case Kind::kHalfCut: cut(event.host, event.other, event.lasts); break;
      case Kind::kIsolate:
        for (int other = 0; other < schedule_.hosts; ++other)
          if (other != event.host) {
            cut(event.host, other, event.lasts);
            cut(other, event.host, event.lasts);
          }
        break;
      case Kind::kPause:
        hosts_[host].pause(true);
        after(event.lasts, [this, host] { hosts_[host].pause(false); });
        break;
      case Kind::kStopRank:
        if (const pid_t rank = any_rank(host); rank != 0) {
          sim::signal_process(rank, SIGSTOP);
          after(event.lasts, [rank] { sim::signal_process(rank, SIGCONT); });
        }
        break;
      case Kind::kSwitchOff:
        hosts_[host].switch_off();
        off_.insert(host);
        break;
      case Kind::kJump: hosts_[host].jump(event.lasts); break;
    }
  }

  // Half a second, or until the next action. What keeps members running starts those again that have ended.
  void turn() {
    const sim::Time until = sim::now() + 500 * sim::kMilli;
    while (!actions_.empty() && actions_.begin()->first <= until) {
      const auto first = actions_.begin();
      if (first->first > sim::now()) sim::sleep_for(first->first - sim::now());
      const auto action = first->second;
      actions_.erase(first);
      action();
    }
    if (sim::now() < until) sim::sleep_for(until - sim::now());
    if (!leads() || over_) return;
    for (std::size_t host = 1; host < hosts_.size(); ++host)
      if (!runs(host) && is_on(host) && sim::now() >= back_at_[host]) start(host);
  }

  void heal() {
    auto rest = std::move(actions_);
    actions_.clear();
    for (const auto& [at, action] : rest) action();
    for (const auto& one : sim::running()) sim::signal_process(one.pid, SIGCONT);
    tell("all is whole again");
  }

  void end() {
    const sim::Time until = sim::now() + kLongestEnd;
    for (std::size_t host = 0; host < hosts_.size(); ++host)
      if (members_[host] != 0 && is_on(host))
        if (!sim::wait_for_end(members_[host], std::max<sim::Time>(until - sim::now(), 0)))
          problem(fmt::format("the member h{} (pid {}) does not end", host, members_[host]));
    sim::sleep_for(20 * sim::kSecond);  // what is left behind has time to end
    tell("the end");
  }

  void check() {
    outcome_.events = schedule_.events.size();
    for (const auto& one : sim::running())
      problem(fmt::format("{} (pid {}) is left on {}", one.name, one.pid, one.host));
    check_ends();
    const auto leader = sim::facts_of(members_[0]);
    if (is_on(0) && leader.ended && leader.status == 0 && journal->ends.empty())
      problem("the job succeeds, and no rank did");
    outcome_.problems.insert(outcome_.problems.end(), journal->problems.begin(), journal->problems.end());
    if (const std::string wrong = problem_of_ledgers(); !wrong.empty()) problem("ledger: " + wrong);
    check_names();
    check_causes();
    check_first_event();
    tell_all();
  }

  // Ranks that end well end with the same, unless the job has begun again between them: the launcher cannot know that a
  // rank was done whose host was lost at that moment.
  void check_ends() {
    const std::string& output = hosts_[0].output();
    const auto again = output.rfind("xoe run: the job begins again");
    const double since = again == std::string::npos ? 0 : std::atof(output.c_str() + output.rfind('\n', again) + 1);
    const Journal::End* first = nullptr;
    for (const Journal::End& end : journal->ends) {
      if (seconds(end.at) < since) continue;
      if (first == nullptr) first = &end;
      if (end.step != first->step || end.total != first->total)
        problem(fmt::format("ranks end after steps {} and {}, with {} and {}", first->step, end.step, first->total,
                            end.total));
    }
  }

  // Only hosts to which something happened are named as lost, or those that gave up on a launcher that stood still.
  void check_names() {
    if (hosts_[0].output().find("this launcher stood still") != std::string::npos) return;
    for (const sim::Host& host : hosts_)
      for (const std::string& line : split_text(host.output(), '\n')) {
        const auto at = parse_number(std::string(line.substr(0, std::min<std::size_t>(line.size(), 9)))
                                         .substr(std::min(line.find_first_not_of(' '), line.size())));
        const auto named = line.find("xoe run: host h");
        if (named == std::string::npos || !at) continue;
        const int number = line[named + 15] - '0';
        if (!was_touched(number, *at)) problem(fmt::format("nothing has happened to h{}: {}", number, line));
      }
  }

  bool was_touched(int host, double at) const {
    return std::ranges::any_of(touched_,
                               [&](const auto& one) { return one.first == host && seconds(one.second) <= at + 0.001; });
  }

  // The hosts that a rank names as the cause of a loss; not those that had left in order before.
  static std::set<int> hosts_named(std::string_view cause) {
    std::set<int> named;
    cause = cause.substr(0, cause.find("; before that"));
    constexpr std::string_view kHost = "host h";
    for (auto at = cause.find(kHost); at != std::string_view::npos; at = cause.find(kHost, at + 1))
      named.insert(cause[at + kHost.size()] - '0');
    return named;
  }

  // Ranks that lose others name one to whose host something has happened.
  void check_causes() {
    for (const Journal::Loss& loss : journal->losses) {
      if (loss.at >= launcher_lost_at_) return;  // each host ends its ranks then
      // One that leaves while it joins has nothing to finish, and ends at once.
      const auto named = hosts_named(loss.cause);
      const bool joined = !named.empty() && std::ranges::all_of(named, [&](int host) {
        const auto started = started_.find(host);
        return started != started_.end() && loss.at - started->second < kJoins;
      });
      if (loss.at < harmed_at_ && !joined)
        problem(fmt::format("a world breaks on {} at {:.3f} s, and nothing has happened: {}", loss.host,
                            seconds(loss.at), loss.cause));
      // All others have closed their connections to one that was silent.
      const bool apart = std::ranges::any_of(
          apart_, [&](const auto& one) { return one.first == loss.host[1] - '0' && one.second <= loss.at; });
      for (const int host : hosts_named(loss.cause))
        if (!apart && !was_touched(host, seconds(loss.at)))
          problem(fmt::format("nothing has happened to h{}, and a rank of {} says at {:.3f} s: {}", host, loss.host,
                              seconds(loss.at), loss.cause));
    }
  }

  // The first thing that happens, on a network of a cluster, if nothing else does soon.
  void check_first_event() {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < schedule_.events.size(); ++i)
      if (!without_.contains(i)) left.push_back(i);
    if (left.empty()) return;
    const Event& first = schedule_.events[left[0]];
    // The only rank of its host, which stands still for longer than the others wait for its end.
    const bool stops = first.kind == Kind::kStopRank && schedule_.ranks == 1 && first.lasts > kEndsSilent + 2 * kGoesOn;
    const bool cuts = first.kind == Kind::kCut || first.kind == Kind::kHalfCut || first.kind == Kind::kIsolate ||
                      first.kind == Kind::kSwitchOff || stops ||
                      (first.kind == Kind::kPause && first.lasts > kNamesHost + 2 * kGoesOn);
    const bool kills = first.kind == Kind::kKillRank || first.kind == Kind::kKillSupervisor ||
                       first.kind == Kind::kKillMember || first.kind == Kind::kLeave;
    // A cut member 0 is without the others, as they are without it.
    if ((!cuts && !kills) || first.host == 0 || first.at < 3 * sim::kSecond) return;
    const sim::Options& options = schedule_.options;
    if (options.slow_message > 0 || options.latency + options.jitter > 2 * sim::kMilli) return;
    // A group that forms asks once a second whether it still is to.
    const bool groups = std::string_view(schedule_.sums) == "groups";
    const sim::Time limit = (stops ? kEndsSilent : cuts ? kNamesHost : 0) + (groups ? 2 : 1) * kGoesOn;
    if (schedule_.done_at > 0 && schedule_.done_at < first.at + 2 * limit) return;
    if (left.size() > 1 && schedule_.events[left[1]].at < first.at + 2 * limit) return;
    // Two hosts that do not reach each other, and that the launcher hears, are in the next world, too: it forms once
    // they do.
    const bool between = (first.kind == Kind::kCut || first.kind == Kind::kHalfCut) && first.other != 0;
    const bool apart = between && first.lasts > kNamesHost;
    check_pause(first, apart ? std::max(first.lasts, kEndsSilent) + 2 * kGoesOn : limit);
    check_blame(first, limit);
  }

  // How long no rank completes a step.
  void check_pause(const Event& first, sim::Time limit) {
    sim::Time before = first.at, widest = 0;
    for (const Record& one : journal->steps) {
      if (one.at < first.at) continue;
      if (before < first.at + limit) widest = std::max(widest, one.at - before);
      before = one.at;
    }
    if (widest > limit + schedule_.step)
      problem(fmt::format("{}: no step for {:.3f} s", to_text(first), seconds(widest)));
  }

  // Ranks of the other hosts name the host to which it happened, soon, and no other. Two that have lost only each other
  // may both be named.
  void check_blame(const Event& first, sim::Time limit) {
    const bool one_way = first.kind == Kind::kHalfCut, between = one_way || first.kind == Kind::kCut;
    const Journal::Loss* told = nullptr;
    for (const Journal::Loss& loss : journal->losses) {
      if (loss.at < first.at || loss.at > first.at + 2 * limit) continue;
      const int teller = loss.host[1] - '0';
      if (teller == first.host || (between && teller == first.other)) continue;
      const std::set<int> named = hosts_named(loss.cause);
      const bool right = std::ranges::all_of(
          named, [&](int host) { return host == first.host || (between && !one_way && host == first.other); });
      if (!right || loss.at > first.at + limit)
        problem(fmt::format("{}: {:.3f} s later a rank of {} says: {}", to_text(first), seconds(loss.at - first.at),
                            loss.host, loss.cause));
      if (named.empty() || (between && !one_way)) continue;
      if (told == nullptr) told = &loss;
      if (bootstrap::ranks_named(loss.cause) != bootstrap::ranks_named(told->cause))
        problem(fmt::format("{}: a rank of {} says: {}; one of {}: {}", to_text(first), told->host, told->cause,
                            loss.host, loss.cause));
    }
  }

  void tell_all() {
    std::multimap<double, std::string> lines;
    for (const auto& [at, line] : told_) lines.emplace(seconds(at), line);
    for (const sim::Host& host : hosts_)
      for (const std::string& line : split_text(host.output(), '\n'))
        if (!line.empty())
          lines.emplace(std::atof(line.c_str()), fmt::format("{} {}: {}\n", line.substr(0, 9), host.name(),
                                                             line.substr(std::min<std::size_t>(line.size(), 10))));
    std::string& story = outcome_.story;
    story = fmt::format("{} hosts, {} ranks each, a commit every {} steps, {}\n", schedule_.hosts, schedule_.ranks,
                        schedule_.commit_every, schedule_.sums);
    for (const auto& [at, line] : lines) story += line;
    sim::Time widest = 0, before = 0, where = 0;
    for (const Record& one : journal->steps) {
      if (before != 0 && one.at - before > widest) widest = one.at - before, where = before;
      before = one.at;
    }
    story += fmt::format(
        "{} steps of ranks, {} ends, the longest pause {:.3f} s from {:.3f} s on, {} calls, digest {:x}\n",
        journal->steps.size(), journal->ends.size(), seconds(widest), seconds(where), sim::calls(), sim::digest());
  }

  const Schedule schedule_;
  const std::set<std::size_t>& without_;
  const std::string secret_;
  std::vector<sim::Host> hosts_;
  std::vector<pid_t> members_;
  std::vector<sim::Time> back_at_;
  std::set<std::size_t> off_;
  std::set<std::pair<int, sim::Time>> touched_, apart_;
  std::map<int, sim::Time> started_;            // when a member of a host began last
  sim::Time launcher_lost_at_ = sim::kForever;  // or stands still
  sim::Time harmed_at_ = sim::kForever;         // the first event that ends a world at once: not where a host leaves
  std::multimap<sim::Time, std::function<void()>> actions_;
  std::multimap<sim::Time, std::string> told_;
  bool over_ = false;
  sim::Outcome outcome_;
};

}  // namespace

sim::Outcome run_seed(std::uint64_t seed, const std::set<std::size_t>& without) {
  journal = new Journal;
  ElasticJob job(seed, without, write_secret());
  sim::Outcome outcome;
  sim::simulate(job.options(), [&] {
    outcome = job.run();
    return 0;
  });
  return outcome;
}

}  // namespace xoe::launch::sim_tests

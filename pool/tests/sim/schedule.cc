#include "pool/tests/sim/schedule.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/testing/sim/draw.h"

namespace xoe::pool::sim_tests {
namespace {

using Kind = Event::Kind;
using sim::Draw;
using sim::kMicro;
using sim::kMilli;
using sim::kSecond;
using sim::Time;

constexpr Time kMinute = 60 * kSecond, kHour = 60 * kMinute, kDay = 24 * kHour;
constexpr int kUserKinds = static_cast<int>(Kind::kKillClient);
constexpr int kKinds = static_cast<int>(Kind::kJump) + 1;

std::string seconds(Time time) { return fmt::format("{}", time / kSecond); }

// From minutes to months, ahead or behind.
Time jump(Draw& draw) {
  const Time most[] = {20 * kSecond, 10 * kMinute, 5 * kHour, 90 * kDay};
  const Time size = draw.between(kSecond, most[draw.below(4)]);
  return draw.chance(50) ? size : -size;
}

void choose_network(Draw& draw, sim::Options& options) {
  options.preempt = draw.chance(50) ? 0.02 : 0.15;
  options.short_read = draw.chance(50) ? 0 : 0.3;
  const bool near = draw.chance(60);
  options.latency = draw.between(20 * kMicro, near ? 300 * kMicro : 5 * kMilli);
  options.jitter = draw.between(0, near ? 500 * kMicro : 20 * kMilli);
  options.slow_message = draw.chance(50) ? 0 : 0.01;
  options.slow = draw.between(kMilli, 500 * kMilli);
}

void choose_people(Draw& draw, Schedule& made) {
  const int all = std::accumulate(made.gpus.begin(), made.gpus.end(), 0);
  const int teams = draw.number(0, 2);
  for (int i = 0; i < teams; ++i) made.teams.push_back({.quota = draw.number(1, all), .may_borrow = draw.chance(50)});
  const int users = draw.number(2, 5);
  for (int i = 0; i < users; ++i)
    made.users.push_back({.team = teams == 0 || draw.chance(20) ? -1 : draw.number(0, teams - 1),
                          .max_gpus = draw.chance(30) ? draw.number(1, all) : 0});
}

void choose_rules(Draw& draw, Schedule& made) {
  auto& rules = made.rules;
  const auto add = [&](std::initializer_list<std::string> words) { rules.insert(rules.end(), words); };
  const int give_way = draw.number(0, 2);
  made.reclaims = give_way == 2;
  add({"--give-way", give_way == 0 ? "off" : give_way == 1 ? "ask" : "reclaim"});
  add({"--give-way-grace", seconds(draw.between(5 * kSecond, 60 * kSecond))});
  add({"--min-runtime", seconds(draw.between(5 * kSecond, 120 * kSecond))});
  add({"--expiry-warning", seconds(draw.between(5 * kSecond, 60 * kSecond))});
  made.reclaims_idle = draw.chance(40);
  if (made.reclaims_idle)
    add({"--reclaim-idle", "--idle-window", "120", "--no-process-window", "60", "--idle-warn-grace", "20",
         "--idle-signal-grace", "10"});
  made.report_interval =
      draw.chance(30) ? draw.between(6200 * kMilli, 8 * kSecond) : draw.between(kSecond, 7 * kSecond);
  made.host_timeout = draw.between(20 * kSecond, 40 * kSecond);
  add({"--host-timeout", seconds(made.host_timeout)});
}

Time duration(Draw& draw, Kind kind) {
  switch (kind) {
    case Kind::kRun:
    case Kind::kUnleased: return draw.between(5 * kSecond, 240 * kSecond);
    case Kind::kAcquire:
    case Kind::kReserve:
    case Kind::kRenew: return draw.between(10 * kSecond, 300 * kSecond);
    case Kind::kKillServer:
    case Kind::kEndServer:
    case Kind::kKillAgent: return draw.chance(70) ? draw.between(0, 20 * kSecond) : draw.between(0, 150 * kSecond);
    case Kind::kCut:
    case Kind::kHalfCut:
    case Kind::kPause:
    case Kind::kStop:
    case Kind::kSwitchOff:
      return draw.chance(50) ? draw.between(100 * kMilli, 8 * kSecond) : draw.between(8 * kSecond, 150 * kSecond);
    case Kind::kJump: return jump(draw);
    default: return 0;
  }
}

Event event_of(Draw& draw, Kind kind, const Schedule& made) {
  const int hosts = static_cast<int>(made.gpus.size());
  Event event{
      .kind = kind, .host = draw.number(1, hosts), .user = draw.number(0, static_cast<int>(made.users.size()) - 1)};
  event.lasts = duration(draw, kind);
  event.from = draw.between(kSecond, 400 * kSecond);
  event.gpus = draw.number(1, made.gpus[static_cast<std::size_t>(event.host - 1)]);
  event.priority = draw.chance(30) ? draw.number(1, 3) : 0;
  event.wait = draw.chance(70);
  event.busy = draw.chance(70);
  event.flag = draw.chance(50);
  event.pick = draw.below(1U << 20U);
  const bool may_be_the_server = kind == Kind::kPause || kind == Kind::kSwitchOff || kind == Kind::kJump;
  if (may_be_the_server && draw.chance(60)) event.host = 0;
  return event;
}

std::vector<Kind> some_kinds(Draw& draw, int first, int end, unsigned percent) {
  std::vector<Kind> kinds;
  for (int kind = first; kind < end; ++kind)
    if (draw.chance(percent)) kinds.push_back(static_cast<Kind>(kind));
  return kinds;
}

void add_events(Draw& draw, Schedule& made, const std::vector<Kind>& kinds, std::uint64_t count) {
  for (std::uint64_t i = 0; !kinds.empty() && i < count; ++i) {
    Event event = event_of(draw, kinds[draw.below(kinds.size())], made);
    event.at = draw.between(0, made.length);
    made.events.push_back(event);
  }
}

}  // namespace

Schedule schedule_of(std::uint64_t seed) {
  Draw draw(seed);
  Schedule made;
  made.options.seed = seed;
  choose_network(draw, made.options);
  const int hosts = draw.number(1, 3);
  for (int i = 0; i < hosts; ++i) made.gpus.push_back(draw.number(1, 4));
  choose_people(draw, made);
  choose_rules(draw, made);
  made.length = draw.chance(75) ? draw.between(3 * kMinute, 10 * kMinute) : draw.between(15 * kMinute, 30 * kMinute);
  // Each seed turns on some of the kinds, so that each is met with and without the others.
  auto acts = some_kinds(draw, 0, kUserKinds, 60);
  if (acts.empty()) acts.push_back(Kind::kRun);
  add_events(draw, made, acts, 5 + draw.below(25));
  const auto faults = some_kinds(draw, kUserKinds, kKinds, 35);
  add_events(draw, made, faults, draw.below(8));
  // A clock that has jumped is followed ten minutes later, which leases of that time are to be seen through.
  if (std::ranges::find(faults, Kind::kJump) != faults.end() && draw.chance(50)) {
    Event event = event_of(draw, Kind::kJump, made);
    event.host = 0;
    event.at = draw.between(0, 3 * kMinute);
    made.events.push_back(event);
    made.length = std::max(made.length, draw.between(14 * kMinute, 25 * kMinute));
    for (int i = 0; i < 4; ++i) {
      event = event_of(draw, Kind::kAcquire, made);
      event.at = draw.between(3 * kMinute, 9 * kMinute);
      event.lasts = draw.between(4 * kMinute, 15 * kMinute);
      made.events.push_back(event);
    }
  }
  // Who waits is killed, and gets its GPUs then.
  if (std::ranges::find(faults, Kind::kKillClient) != faults.end() && draw.chance(50))
    for (int i = 0; i < 5; ++i) {
      Event event = event_of(draw, i < 3 ? Kind::kAcquire : Kind::kKillClient, made);
      event.at = i < 3 ? draw.between(0, kMinute) : draw.between(kMinute, 4 * kMinute);
      event.wait = true;
      event.flag = event.flag && i < 3;
      event.lasts = draw.between(150 * kSecond, 300 * kSecond);
      made.events.push_back(event);
    }
  std::ranges::stable_sort(made.events, {}, &Event::at);
  return made;
}

Schedule year_of(std::uint64_t seed, int days) {
  Draw draw(seed);
  Schedule made;
  made.options = {.seed = seed, .preempt = 0.01, .short_read = 0, .jitter = kMilli};
  made.gpus = {4, 2, 4};
  made.teams = {{.quota = 4, .may_borrow = true}, {.quota = 3, .may_borrow = false}};
  made.users = {{.team = 0}, {.team = 0, .max_gpus = 3}, {.team = 1}, {.team = 1}, {}};
  made.reclaims = made.reclaims_idle = true;
  made.report_interval = 20 * kMinute;
  made.host_timeout = kHour;
  made.rules = {"--give-way",
                "reclaim",
                "--give-way-grace",
                "10m",
                "--min-runtime",
                "1h",
                "--reclaim-idle",
                "--idle-window",
                "6h",
                "--no-process-window",
                "3h",
                "--idle-warn-grace",
                "1h",
                "--idle-signal-grace",
                "1h",
                "--waiting-timeout",
                "2m",
                "--host-timeout",
                "1h"};
  made.patience = 5 * kMinute;
  made.length = days * kDay;
  std::vector<Kind> acts, faults;
  for (int kind = 0; kind < kUserKinds; ++kind) acts.push_back(static_cast<Kind>(kind));
  for (int kind = kUserKinds; kind < kKinds; ++kind) faults.push_back(static_cast<Kind>(kind));
  add_events(draw, made, acts, static_cast<std::uint64_t>(days) * 16);
  add_events(draw, made, faults, static_cast<std::uint64_t>(days));
  for (Event& event : made.events) {
    const bool is_long = event.kind == Kind::kAcquire || event.kind == Kind::kReserve || event.kind == Kind::kRenew;
    if (is_long) event.lasts *= 200;  // half an hour to sixteen hours
    event.from *= 300;
    if (event.kind >= Kind::kKillClient && event.kind != Kind::kJump && draw.chance(20)) event.lasts *= 60;
  }
  std::ranges::stable_sort(made.events, {}, &Event::at);
  return made;
}

std::string to_text(const Event& event) {
  const std::string host = event.host == 0 ? "the server's host" : fmt::format("h{}", event.host);
  const std::string lasts = fmt::format("{:.3f} s", static_cast<double>(event.lasts) / 1e9);
  const std::string user = fmt::format("u{}", event.user);
  switch (event.kind) {
    case Kind::kRun:
      return fmt::format("{} runs a program with {} GPUs of {} for {}, priority {}{}{}", user, event.gpus, host, lasts,
                         event.priority, event.wait ? ", waits" : "", event.busy ? "" : ", idle");
    case Kind::kAcquire:
      return fmt::format("{} acquires {} GPUs for {}, priority {}{}{}", user, event.gpus, lasts, event.priority,
                         event.wait ? ", waits" : "", event.flag ? ", from any host" : "");
    case Kind::kReserve: return fmt::format("{} reserves {} GPUs for {}", user, event.gpus, lasts);
    case Kind::kRenew: return fmt::format("{} renews a lease for {}", user, lasts);
    case Kind::kRelease: return fmt::format("{} releases a lease", user);
    case Kind::kRevoke: return "the admin revokes a lease";
    case Kind::kUnleased: return fmt::format("{} uses a GPU of {} without a lease for {}", user, host, lasts);
    case Kind::kAdopt: return fmt::format("{} adopts a GPU", user);
    case Kind::kLook: return fmt::format("{} looks at status and usage", user);
    case Kind::kKillClient: return event.flag ? "the next client is killed soon" : "a client is killed";
    case Kind::kEndClient: return "a client gets SIGTERM";
    case Kind::kKillProgram: return "a program is killed";
    case Kind::kKillServer: return fmt::format("the server is killed, and starts again after {}", lasts);
    case Kind::kEndServer: return fmt::format("the server gets SIGTERM, and starts again after {}", lasts);
    case Kind::kKillAgent: return fmt::format("the agent of {} is killed, and starts again after {}", host, lasts);
    case Kind::kCut: return fmt::format("the link between {} and the server is cut for {}", host, lasts);
    case Kind::kHalfCut: return fmt::format("messages {} {} are lost for {}", event.flag ? "from" : "to", host, lasts);
    case Kind::kPause: return fmt::format("{} stands still for {}", host, lasts);
    case Kind::kStop: return fmt::format("a process of the pool is stopped for {}", lasts);
    case Kind::kSwitchOff: return fmt::format("{} has no power for {}", host, lasts);
    case Kind::kJump: return fmt::format("the clock of {} jumps by {}", host, lasts);
  }
  return {};
}

}  // namespace xoe::pool::sim_tests

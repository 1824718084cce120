#include "launch/tests/sim/schedule.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "core/testing/sim/draw.h"

namespace xoe::launch::sim_tests {
namespace {

using sim::Draw;

constexpr int kKinds = 11;

sim::Time duration(Draw& draw, Event::Kind kind) {
  using enum Event::Kind;
  switch (kind) {
    case kJump: return draw.between(-3600 * sim::kSecond, 3600 * sim::kSecond);
    case kKillMember:
    case kLeave: return draw.between(0, 15 * sim::kSecond);
    case kCut:
    case kHalfCut:
    case kIsolate:
    case kPause:
    case kStopRank:
      if (draw.chance(35)) return draw.between(10 * sim::kMilli, 5 * sim::kSecond);
      // About as long as a silence may be.
      return draw.chance(60) ? draw.between(9 * sim::kSecond, 10'600 * sim::kMilli)
                             : draw.between(11 * sim::kSecond, 30 * sim::kSecond);
    default: return 0;
  }
}

}  // namespace

Schedule schedule_of(std::uint64_t seed) {
  Draw draw(seed);
  Schedule made;
  made.options.seed = seed;
  // Each seed turns on some of the faults, so that each is met with and without the others.
  made.options.preempt = draw.chance(50) ? 0.02 : 0.2;
  made.options.short_read = draw.chance(50) ? 0 : 0.3;
  // One thing happens, on a network of a cluster: what is promised for it is checked.
  const bool calm = draw.chance(40);
  const bool near = calm || draw.chance(60);
  made.options.latency = draw.between(20 * sim::kMicro, near ? 300 * sim::kMicro : 2 * sim::kMilli);
  made.options.jitter = draw.between(0, near ? 500 * sim::kMicro : 5 * sim::kMilli);
  made.options.slow_message = calm || draw.chance(60) ? 0 : 0.01;
  made.options.slow = draw.between(sim::kMilli, 200 * sim::kMilli);
  // From six on, some hosts reach the root of the agreement through another one.
  made.hosts = draw.chance(8) ? 6 : static_cast<int>(2 + draw.below(3));
  made.ranks = draw.chance(70) ? 1 : 2;
  made.commit_every = draw.chance(70) ? 1 : 3;
  constexpr const char* kSums[] = {"comm", "engine", "engine", "groups"};
  made.sums = kSums[draw.below(4)];
  // Each takes about as long to simulate.
  if (std::string_view(made.sums) != "comm") made.step *= 3;
  std::vector<Event::Kind> kinds;
  for (int kind = 0; kind < kKinds; ++kind)
    if (draw.chance(45)) kinds.push_back(static_cast<Event::Kind>(kind));
  if (!kinds.empty() && draw.chance(25)) kinds = {kinds[draw.below(kinds.size())]};
  if (!calm && draw.chance(50)) made.done_at = draw.between(5 * sim::kSecond, made.length - sim::kSecond);
  if (calm) kinds = {static_cast<Event::Kind>(draw.below(kKinds))};
  const auto count = kinds.empty() ? 0 : calm ? 1 : 1 + draw.below(8);
  for (std::uint64_t i = 0; i < count; ++i) {
    Event event;
    event.kind = kinds[draw.below(kinds.size())];
    event.at = calm ? draw.between(3 * sim::kSecond, 5 * sim::kSecond) : draw.between(200 * sim::kMilli, made.length);
    // About when the ranks end.
    if (made.done_at > 0 && draw.chance(25)) event.at = made.done_at + draw.between(-sim::kSecond, sim::kSecond / 2);
    const bool spares_leader = calm || event.kind == Event::Kind::kKillMember || event.kind == Event::Kind::kLeave ||
                               event.kind == Event::Kind::kSwitchOff;
    const auto hosts = static_cast<std::uint64_t>(made.hosts);
    event.host = static_cast<int>(spares_leader && !draw.chance(5) ? 1 + draw.below(hosts - 1) : draw.below(hosts));
    // Soon after the one before has begun, or is over.
    if (i > 0 && draw.chance(40)) {
      const Event& before = made.events.back();
      const bool ends = draw.chance(50) && before.kind != Event::Kind::kJump;
      event.at = std::min(before.at + (ends ? before.lasts : 0) + draw.between(0, 2 * sim::kSecond), made.length);
      if (!spares_leader || before.host != 0) event.host = before.host;
    }
    event.other = static_cast<int>((static_cast<std::uint64_t>(event.host) + 1 + draw.below(hosts - 1)) % hosts);
    event.lasts = duration(draw, event.kind);
    made.events.push_back(event);
  }
  std::ranges::stable_sort(made.events, {}, &Event::at);
  return made;
}

std::string to_text(const Event& event) {
  const auto seconds = [](sim::Time time) { return static_cast<double>(time) / 1e9; };
  const auto host = fmt::format("h{}", event.host);
  const auto lasts = fmt::format("{:.3f} s", seconds(event.lasts));
  using enum Event::Kind;
  switch (event.kind) {
    case kKillRank: return fmt::format("a rank of {} is killed", host);
    case kKillSupervisor: return fmt::format("the supervisor of {} is killed", host);
    case kKillMember: return fmt::format("the member {} is killed, and joins again after {}", host, lasts);
    case kLeave: return fmt::format("the member {} gets SIGTERM, and joins again after {}", host, lasts);
    case kCut: return fmt::format("the link between {} and h{} is cut for {}", host, event.other, lasts);
    case kHalfCut: return fmt::format("messages from {} to h{} are lost for {}", host, event.other, lasts);
    case kIsolate: return fmt::format("all links of {} are cut for {}", host, lasts);
    case kPause: return fmt::format("{} stands still for {}", host, lasts);
    case kStopRank: return fmt::format("a rank of {} is stopped for {}", host, lasts);
    case kSwitchOff: return fmt::format("{} is switched off", host);
    case kJump: return fmt::format("the clock of {} jumps by {}", host, lasts);
  }
  return {};
}

}  // namespace xoe::launch::sim_tests

#include "launch/agents/host_roster.h"

#include <algorithm>
#include <utility>

namespace xoe::launch {
namespace {

// A host that has been there for this long has recovered.
constexpr auto kRecovered = std::chrono::minutes(5);

}  // namespace

HostRoster::Entry* HostRoster::find(const std::string& host) {
  const auto found = std::ranges::find(entries_, host, [](const Entry& entry) { return entry.host.name; });
  return found == entries_.end() ? nullptr : &*found;
}

void HostRoster::name(std::span<const remote::Host> hosts) {
  for (Entry& entry : entries_) entry.named = false;
  for (const remote::Host& host : hosts) {
    if (const Entry* const entry = find(host.name); entry != nullptr && entry->state == State::kGoing && entry->unnamed)
      named_again_.push_back(host.name);
    add(host);
  }
  for (Entry& entry : entries_) entry.unnamed = !entry.named;
}

void HostRoster::add(const remote::Host& host) {
  Entry* entry = find(host.name);
  if (entry == nullptr) entry = &entries_.emplace_back();
  entry->host = host;
  entry->named = true;
}

void HostRoster::note_there(const std::string& host) {
  if (Entry* const entry = find(host)) {
    entry->state = State::kThere;
    entry->there_since = Clock::now();
  }
}

std::chrono::nanoseconds HostRoster::note_failed(const std::string& host, Clock::time_point now) {
  Entry* const entry = find(host);
  if (entry == nullptr) return cooldown_;
  if (std::exchange(entry->state, State::kAway) != State::kComing && now - entry->there_since >= kRecovered)
    entry->failures = 0;
  auto pause = cooldown_;
  for (int i = 0; i < entry->failures && pause < longest_; ++i) pause = std::min(2 * pause, longest_);
  ++entry->failures;
  entry->until = now + pause;
  return pause;
}

void HostRoster::note_ending(const std::string& host) {
  if (Entry* const entry = find(host)) entry->state = State::kEnding;
}

void HostRoster::note_gone(const std::string& host) {
  if (Entry* const entry = find(host)) entry->state = State::kAway;
}

void HostRoster::exclude(const std::string& host, Clock::time_point now) {
  if (Entry* const entry = find(host)) entry->until = now + longest_;
}

void HostRoster::strike(const std::string& host) {
  if (Entry* const entry = find(host)) entry->named = false;
}

std::vector<remote::Host> HostRoster::take_wanted(Clock::time_point now) {
  std::vector<remote::Host> wanted;
  for (Entry& entry : entries_) {
    if (!entry.named || entry.state != State::kAway || (entry.until && now < *entry.until)) continue;
    entry.state = State::kComing;
    entry.until.reset();
    wanted.push_back(entry.host);
  }
  return wanted;
}

std::vector<std::string> HostRoster::take_unwanted() {
  std::vector<std::string> unwanted;
  for (Entry& entry : entries_) {
    if (entry.named || entry.state != State::kThere) continue;
    entry.state = State::kGoing;
    unwanted.push_back(entry.host.name);
  }
  return unwanted;
}

bool HostRoster::is_past(const std::string& host) const {
  const auto found = std::ranges::find(entries_, host, [](const Entry& entry) { return entry.host.name; });
  return found != entries_.end() && !found->named && found->state == State::kAway;
}

std::optional<HostRoster::Clock::time_point> HostRoster::next_turn() const {
  std::optional<Clock::time_point> next;
  for (const Entry& entry : entries_)
    if (entry.named && entry.state == State::kAway && entry.until)
      next = std::min(next.value_or(*entry.until), *entry.until);
  return next;
}

}  // namespace xoe::launch

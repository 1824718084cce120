#include "launch/supervise/first_fault.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launch/remote/spawn.h"

namespace xoe::launch {
namespace {

// A shell ends a moment after the process that it tells of.
constexpr auto kShellDelay = std::chrono::milliseconds(100);

// Survivors may end by these: they are told to, or abort because of an error.
bool answers_something(int signal) {
  return signal == SIGABRT || signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGPIPE;
}

// 2: a host or its supervisor is lost; 1: a rank was killed or crashed, perhaps behind a shell; 0: it exited.
int strength(const Fault& fault) {
  if (!fault.end) return 2;
  const int code = remote::exit_code_of(fault.end->status);
  return code > 128 && code < 128 + NSIG && !answers_something(code - 128) ? 1 : 0;
}

}  // namespace

bool may_answer(const Fault& fault) { return strength(fault) == 0; }

void FirstFault::add(Fault fault) {
  std::vector<Fault> causes;
  std::erase_if(events_, [&](const Event& event) {
    if (event.kind != Event::Kind::kSuspicion) return false;
    if (event.until_formed || fault.at - event.fault.at < kSoon) causes.push_back(event.fault);
    return true;
  });
  for (const Fault& cause : causes) add(cause);
  if (fault.end && WIFEXITED(fault.end->status) && strength(fault) > 0) fault.at -= kShellDelay;
  for (auto& [kind, known, until_formed] : events_) {
    if (kind != Event::Kind::kFault || !known.end || !fault.end) continue;
    if (!known.end->announced || known.end->rank != fault.end->rank) continue;
    known.end = fault.end;
    known.at = std::min(known.at, fault.at);
    return;
  }
  events_.push_back({Event::Kind::kFault, fault});
}

void FirstFault::suspect(const Fault& fault, bool until_formed) {
  std::erase_if(events_, [&](const Event& event) {
    return event.kind == Event::Kind::kSuspicion && !event.until_formed && fault.at - event.fault.at >= kSoon;
  });
  events_.push_back({Event::Kind::kSuspicion, fault, until_formed});
}

void FirstFault::forget_lost(int version) {
  std::erase_if(events_, [](const Event& event) { return event.kind == Event::Kind::kSuspicion; });
  std::erase_if(lost_, [version](const auto& told) { return told.second.version < version; });
}

void FirstFault::announce(const Fault& fault) {
  const bool known = std::ranges::any_of(events_, [&](const Event& event) {
    return event.kind == Event::Kind::kAnnouncement && event.fault.end->rank == fault.end->rank;
  });
  if (!known) events_.push_back({Event::Kind::kAnnouncement, fault});
}

std::optional<Fault> FirstFault::take_announced(int rank, pid_t pid) {
  const auto taken = take_announcement(rank);
  return taken && taken->end->pid == pid ? taken : std::nullopt;
}

void FirstFault::add_announced(const Fault& answer) {
  std::vector<Fault> before;
  for (const auto& [kind, fault, until_formed] : events_) {
    if (kind != Event::Kind::kAnnouncement) continue;
    const bool same_host = fault.host == answer.host;
    if (same_host ? fault.at < answer.at : earliest_time(fault) < answer.at + kUncertainty) before.push_back(fault);
  }
  for (const Fault& fault : before) add(fault);
}

std::vector<Fault> FirstFault::take_if(const std::function<bool(const Fault&)>& explained) {
  std::vector<Fault> taken;
  std::erase_if(events_, [&](const Event& event) {
    if (event.kind != Event::Kind::kFault || !explained(event.fault)) return false;
    taken.push_back(event.fault);
    return true;
  });
  return taken;
}

std::optional<Fault> FirstFault::take_announcement(int rank) {
  const auto found = std::ranges::find_if(events_, [&](const Event& event) {
    return event.kind == Event::Kind::kAnnouncement && event.fault.end->rank == rank;
  });
  if (found == events_.end()) return std::nullopt;
  const Fault taken = found->fault;
  events_.erase(found);
  return taken;
}

const Fault* FirstFault::find(const std::function<bool(const Fault&)>& wanted) const {
  for (const auto& [kind, fault, until_formed] : events_)
    if (kind == Event::Kind::kFault && wanted(fault)) return &fault;
  return nullptr;
}

FirstFault::Clock::time_point FirstFault::earliest_time(const Fault& fault) const {
  const auto late = lateness_.find(fault.host);
  return late == lateness_.end() ? fault.at : fault.at - late->second;
}

// The peers that it lost, those that they lost, and so on.
std::vector<LostPeer> FirstFault::causes_of(const Fault& fault) const {
  std::vector<LostPeer> causes;
  if (!fault.end) return causes;
  const auto add = [&](const Losses& losses) {
    for (const LostPeer& peer : losses.peers)
      if (std::ranges::find(causes, peer.rank, &LostPeer::rank) == causes.end()) causes.push_back(peer);
  };
  if (const auto own = lost_.find(fault.end->rank); own != lost_.end() && own->second.pid == fault.end->pid)
    add(own->second);
  for (std::size_t i = 0; i < causes.size(); ++i)
    if (const auto known = lost_.find(causes[i].rank); known != lost_.end()) add(known->second);
  return causes;
}

bool FirstFault::awaits(const std::set<int>& running) const {
  if (empty()) return false;
  return std::ranges::any_of(causes_of(first()), [&](const LostPeer& peer) { return running.contains(peer.rank); });
}

// Whether it follows from another fault. Two that lost each other may both be the first.
bool FirstFault::is_effect(const Fault& fault) const {
  for (const LostPeer& peer : causes_of(fault)) {
    if (fault.end->rank == peer.rank) continue;
    const Fault* const cause =
        find([&](const Fault& other) { return other.end ? other.end->rank == peer.rank : other.host == peer.host; });
    if (cause == nullptr) continue;
    const auto back = causes_of(*cause);
    if (std::ranges::find(back, fault.end->rank, &LostPeer::rank) == back.end()) return true;
  }
  return false;
}

std::vector<const Fault*> FirstFault::order() const {
  std::map<std::size_t, const Fault*> first_of_host;
  for (const auto& [kind, fault, until_formed] : events_) {
    if (kind != Event::Kind::kFault) continue;
    const Fault*& known = first_of_host[fault.host];
    if ((known == nullptr || fault.at < known->at) && !is_effect(fault)) known = &fault;
  }
  std::vector<const Fault*> early;
  for (const auto& [host, fault] : first_of_host)
    if (fault != nullptr) early.push_back(fault);
  const auto at = [](const Fault* fault) { return fault->at; };
  const auto earliest = at(*std::ranges::min_element(early, {}, at));
  std::erase_if(early, [&](const Fault* fault) { return earliest_time(*fault) - earliest >= kUncertainty; });
  std::ranges::sort(early, [](const Fault* a, const Fault* b) {
    return std::pair(-strength(*a), a->at) < std::pair(-strength(*b), b->at);
  });
  std::erase_if(early, [&](const Fault* fault) { return strength(*fault) < strength(*early.front()); });
  return early;
}

std::vector<Fault> FirstFault::rivals() const {
  std::vector<Fault> rivals;
  for (const Fault* fault : order())
    if (fault->end) rivals.push_back(*fault);
  if (!rivals.empty()) rivals.erase(rivals.begin());
  return rivals;
}

}  // namespace xoe::launch

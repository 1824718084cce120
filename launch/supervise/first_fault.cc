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
  if (const auto cause = std::exchange(suspect_, std::nullopt); cause && fault.at - cause->at < kSoon) add(*cause);
  if (fault.end && WIFEXITED(fault.end->status) && strength(fault) > 0) fault.at -= kShellDelay;
  const auto announced = std::ranges::find_if(faults_, [&](const Fault& known) {
    return known.end && fault.end && known.end->announced && known.end->rank == fault.end->rank;
  });
  if (announced == faults_.end()) return faults_.push_back(fault);
  announced->end = fault.end;
  announced->at = std::min(announced->at, fault.at);
}

std::optional<Fault> FirstFault::take_announced(int rank, pid_t pid) {
  const auto taken = announced_.extract(rank);
  return taken.empty() || taken.mapped().end->pid != pid ? std::nullopt : std::optional(taken.mapped());
}

void FirstFault::add_announced(const Fault& answer) {
  for (const auto& [rank, fault] : announced_)
    if (fault.at < answer.at + (fault.host == answer.host ? Clock::duration() : kUncertainty)) add(fault);
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
  if (faults_.empty()) return false;
  return std::ranges::any_of(causes_of(first()), [&](const LostPeer& peer) { return running.contains(peer.rank); });
}

// Whether it follows from another fault. Two that lost each other may both be the first.
bool FirstFault::is_effect(const Fault& fault) const {
  for (const LostPeer& peer : causes_of(fault)) {
    if (fault.end->rank == peer.rank) continue;
    const auto cause = std::ranges::find_if(faults_, [&](const Fault& other) {
      return other.end ? other.end->rank == peer.rank : other.host == peer.host;
    });
    if (cause == faults_.end()) continue;
    const auto back = causes_of(*cause);
    if (std::ranges::find(back, fault.end->rank, &LostPeer::rank) == back.end()) return true;
  }
  return false;
}

std::vector<const Fault*> FirstFault::order() const {
  std::map<std::size_t, const Fault*> first_of_host;
  for (const Fault& fault : faults_) {
    const Fault*& known = first_of_host[fault.host];
    if ((known == nullptr || fault.at < known->at) && !is_effect(fault)) known = &fault;
  }
  std::vector<const Fault*> early;
  for (const auto& [host, fault] : first_of_host)
    if (fault != nullptr) early.push_back(fault);
  const auto at = [](const Fault* fault) { return fault->at; };
  const auto earliest = at(*std::ranges::min_element(early, {}, at));
  std::erase_if(early, [&](const Fault* fault) { return fault->at - earliest >= kUncertainty; });
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

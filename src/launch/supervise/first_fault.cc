#include "launch/supervise/first_fault.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "remote/spawn.h"

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
  const auto same = std::ranges::find(first_of_host_, fault.host, &Fault::host);
  if (same == first_of_host_.end())
    first_of_host_.push_back(fault);
  else if (fault.at < same->at)
    *same = fault;
  else if (same->end && fault.end && same->end->announced && same->end->rank == fault.end->rank)
    same->end = fault.end;
}

std::optional<Fault> FirstFault::take_announced(int rank, pid_t pid) {
  const auto taken = announced_.extract(rank);
  return taken.empty() || taken.mapped().end->pid != pid ? std::nullopt : std::optional(taken.mapped());
}

void FirstFault::add_announced(const Fault& answer) {
  for (const auto& [rank, fault] : announced_)
    if (fault.at < answer.at + (fault.host == answer.host ? Clock::duration() : kUncertainty)) add(fault);
}

const Fault& FirstFault::first() const {
  const auto earliest = std::ranges::min_element(first_of_host_, {}, &Fault::at);
  const Fault* chosen = &*earliest;
  for (const Fault& fault : first_of_host_) {
    if (fault.at - earliest->at >= kUncertainty) continue;
    const int more = strength(fault) - strength(*chosen);
    if (more > 0 || (more == 0 && fault.at < chosen->at)) chosen = &fault;
  }
  return *chosen;
}

}  // namespace xoe::launch

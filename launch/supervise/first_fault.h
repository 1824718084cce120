// Which of several faults came first. The news of an effect may arrive before that of its cause, which happened on
// another host, or to a process that takes longer to end than its peers take to notice.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "launch/output/job_outcome.h"

namespace xoe::launch {

struct Fault {
  Cause cause = Cause::kRankFailed;  // or kSupervisorLost, kHostLost
  std::size_t host = 0;
  std::optional<RankEnd> end = {};  // kRankFailed
  // By this host's clock. Of a lost host: when it was last heard of.
  std::chrono::steady_clock::time_point at = {};
};

// A rank that another one's engine has lost.
struct LostPeer {
  int rank = 0;
  std::size_t host = 0;
};

// Whether it may be how a survivor ends: an exit, or a signal by which programs abort or are told to end.
bool may_answer(const Fault& fault);

class FirstFault {
 public:
  // Clocks of hosts are compared with an error, and processes take note of a death late where others compute.
  using Clock = std::chrono::steady_clock;
  static constexpr auto kUncertainty = std::chrono::milliseconds(500);
  static constexpr auto kSoon = std::chrono::seconds(10);

  void add(Fault fault);
  // A rank says that its operations have failed because of these: its own end follows from theirs.
  void note_lost(int rank, pid_t pid, std::vector<LostPeer> lost) {
    lost_.insert_or_assign(rank, Losses{pid, std::move(lost)});
  }
  // Whether the first fault so far follows from the end of one of these ranks, which is still to come.
  bool awaits(const std::set<int>& running) const;
  // A rank that runs says that it fails. `fault` is what it would be if the rank had to be ended: of now, and
  // announced.
  void announce(const Fault& fault) { announced_.try_emplace(fault.end->rank, fault); }
  // The rank has ended: what the process had announced, if it had.
  std::optional<Fault> take_announced(int rank, pid_t pid);
  // Adds what was announced before `answer`, which may be an answer to it.
  void add_announced(const Fault& answer);
  bool any_announced() const noexcept { return !announced_.empty(); }
  // One that counts only if another follows soon, because of it.
  void suspect(const Fault& fault) { suspect_ = fault; }
  // Takes out those for which it is true.
  template <class Predicate>
  std::vector<Fault> take_if(Predicate&& explained) {
    const auto rest = std::stable_partition(faults_.begin(), faults_.end(), std::not_fn(explained));
    std::vector<Fault> taken(rest, faults_.end());
    faults_.erase(rest, faults_.end());
    return taken;
  }
  bool empty() const noexcept { return faults_.empty(); }
  // What follows from another fault, as the ranks say themselves, is not the first. Of the rest the order is known on
  // one host. Between hosts the earliest counts, but a lost host or supervisor outranks the end of a rank, and a signal
  // outranks an exit, when the earliest is earlier by less than kUncertainty: an exit may well be the answer to a lost
  // peer, and the others cannot.
  const Fault& first() const { return *order().front(); }
  // Faults of other hosts that came so near to first() that the order is not known.
  std::vector<Fault> rivals() const;

 private:
  struct Losses {
    pid_t pid = 0;
    std::vector<LostPeer> peers = {};
  };
  std::vector<LostPeer> causes_of(const Fault& fault) const;
  bool is_effect(const Fault& fault) const;
  // The first one, and its rivals.
  std::vector<const Fault*> order() const;

  std::vector<Fault> faults_;
  std::map<int, Losses> lost_;  // by rank
  std::optional<Fault> suspect_;
  std::map<int, Fault> announced_;  // by rank
};

}  // namespace xoe::launch

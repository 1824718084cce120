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
  // A rank says that its operations have failed because of these: its own end follows from theirs. version: of the
  // world that it was in.
  void note_lost(int rank, pid_t pid, std::vector<LostPeer> lost, int version = 0) {
    lost_.insert_or_assign(rank, Losses{pid, std::move(lost), version});
  }
  // Whether the first fault so far follows from the end of one of these ranks, which is still to come.
  bool awaits(const std::set<int>& running) const;
  // A rank that runs says that it fails. `fault` is what it would be if the rank had to be ended: of now, and
  // announced.
  void announce(const Fault& fault);
  // The rank has ended: what the process had announced, if it had.
  std::optional<Fault> take_announced(int rank, pid_t pid);
  // Adds what was announced before `answer`, which may be an answer to it.
  void add_announced(const Fault& answer);
  bool any_announced() const noexcept { return has(Event::Kind::kAnnouncement); }
  // One that counts only if another follows because of it: soon, or before forget_lost().
  void suspect(const Fault& fault, bool until_formed = false);
  // The ranks go on without those that were lost, in a world of this version: what fails from now on does not follow
  // from it.
  void forget_lost(int version);
  // Takes out those for which it is true.
  std::vector<Fault> take_if(const std::function<bool(const Fault&)>& explained);
  bool empty() const noexcept { return !has(Event::Kind::kFault); }
  // A host's clock, and what is noted on it, may be late by this much, as a question to it was just answered.
  void note_lateness(std::size_t host, Clock::duration lateness) { lateness_[host] = lateness; }
  // What follows from another fault, as the ranks say themselves, is not the first. Of the rest the order is known on
  // one host. Between hosts the earliest counts, but a lost host or supervisor outranks the end of a rank, and a signal
  // outranks an exit, when the earliest is earlier by less than kUncertainty and the lateness of the other one's host:
  // an exit may well be the answer to a lost peer, and the others cannot.
  const Fault& first() const { return *order().front(); }
  // Faults of other hosts that came so near to first() that the order is not known.
  std::vector<Fault> rivals() const;

 private:
  struct Losses {
    pid_t pid = 0;
    std::vector<LostPeer> peers = {};
    int version = 0;
  };
  // Something that the launcher has heard of; events_ keeps them in the order in which it did.
  struct Event {
    enum class Kind : std::uint8_t {
      kFault,         // it counts
      kAnnouncement,  // of a rank that runs; one for each rank
      kSuspicion,     // it counts if a fault follows
    };
    Kind kind = Kind::kFault;
    Fault fault = {};
    bool until_formed = false;  // of a suspicion
  };
  bool has(Event::Kind kind) const noexcept { return std::ranges::find(events_, kind, &Event::kind) != events_.end(); }
  std::optional<Fault> take_announcement(int rank);
  // The first counting fault for which it is true.
  const Fault* find(const std::function<bool(const Fault&)>& wanted) const;
  Clock::time_point earliest_time(const Fault& fault) const;
  std::vector<LostPeer> causes_of(const Fault& fault) const;
  bool is_effect(const Fault& fault) const;
  // The first one, and its rivals.
  std::vector<const Fault*> order() const;

  std::vector<Event> events_;
  std::map<int, Losses> lost_;                       // by rank
  std::map<std::size_t, Clock::duration> lateness_;  // by host
};

}  // namespace xoe::launch

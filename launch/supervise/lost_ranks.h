// Ranks that their peers have given up, though their processes live: stopped, or unreachable from a peer alone. No end
// of a process begins another world then.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace xoe::launch {

class LostRanks {
 public:
  using Clock = std::chrono::steady_clock;
  // A process that dies may take a while to end, and the news of it a while to come.
  static constexpr auto kMayStillEnd = std::chrono::seconds(3);

  // The rank in slot `teller` says that it has lost these; `silent`: it hears nothing of them, else they have closed
  // their connections, as one does that ends, or that has lost another one itself.
  void note(int teller, const std::vector<int>& lost, bool silent, Clock::time_point now);
  // It has ended: what becomes of it is known.
  void ended(int slot);
  // Another world has begun.
  void clear();

  // Whether one has said that it has lost others: this world is over for it, and it waits for another one.
  bool any() const noexcept { return !tellers_.empty(); }

  std::optional<Clock::time_point> next() const;
  // Once the time of some is over.
  struct Verdict {
    std::vector<int> stuck;  // who are silent and have told nothing themselves: the others go on without them
    bool parted = false;     // all have: they wait for another world, with all of them
  };
  std::optional<Verdict> take_due(Clock::time_point now);

 private:
  struct Lost {
    Clock::time_point since = {};
    bool silent = false;
  };
  std::map<int, Lost> lost_;
  std::set<int> tellers_;
};

}  // namespace xoe::launch

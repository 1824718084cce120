// How this process has gone from world to world, for its timeline.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xoe {

// The ranks of a version of the world, as one of them sees them.
struct WorldRanks {
  int version = 0;
  int rank = 0;                 // this process's
  int size = 0;                 // of the world
  std::vector<int> slots = {};  // of the job, by rank; empty where the number of ranks never changes
};

// How a world came about, as a bar of the timeline.
struct WorldMark {
  std::string text = {};  // "world 1: 3 ranks (rank 1 lost: it was killed)"
  std::string note = {};  // "rank 2 before", where the number of this rank has changed
  std::chrono::steady_clock::time_point began = {};
  std::chrono::steady_clock::time_point formed = {};
};

// Why a world broke.
struct WorldLoss {
  std::string cause = {};       // the error of the first operation that failed; empty: it did not break
  std::vector<int> slots = {};  // of the ranks that it names
  std::chrono::steady_clock::time_point at = {};
};

// Ranks that are lost or left have their numbers of `before`, those that joined their numbers of `now`.
std::string describe_world(const WorldRanks& before, const WorldRanks& now, const WorldLoss& loss);

// How this host's clock differs from that of the host that was rank 0's in the first world, as far as is known.
struct ClockOffset {
  std::chrono::nanoseconds offset{0};  // to add to this host's
  std::chrono::nanoseconds uncertainty{0};
};

// Any thread. A process is in one world at a time.
class WorldHistory {
 public:
  using Clock = std::chrono::steady_clock;
  static WorldHistory& of_process();

  // A rank of this world was lost; the first cause counts.
  void lost(std::string_view cause);
  // This process is in another world. began: when it left the one before, unless a rank was lost earlier.
  void joined(const WorldRanks& now, Clock::time_point began);
  // How this world came about, the first time that it is asked for; nullopt: it is the first one of this process.
  std::optional<WorldMark> take_mark();
  int version() const;

  // True if this process has written to this timeline in an earlier world: the file is then continued, not replaced.
  bool wrote_before(const std::string& timeline) const;
  // Comes from an earlier world of its job, whose other hosts may be gone; nullopt: this process was in none.
  std::optional<ClockOffset> earlier_clock() const;
  void note_clock(const ClockOffset& clock);

  // True if it is in a later world of its job, and has not written to this timeline.
  bool may_follow_others(const std::string& timeline) const;
  void writes(const std::string& timeline);

 private:
  mutable std::mutex mutex_;
  std::optional<WorldRanks> last_;
  WorldLoss loss_;  // of `last_`
  // While none has taken the mark: what it goes out from.
  std::optional<WorldRanks> marked_;
  WorldLoss marked_loss_;
  std::optional<WorldMark> mark_;
  std::optional<ClockOffset> clock_;
  std::string timeline_;
  int timeline_version_ = 0;
};

}  // namespace xoe

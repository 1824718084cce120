// The pool's part that knows hosts and their GPUs: it takes what agents report, and forgets what is no more.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "pool/core/forget.h"
#include "pool/core/journal.h"
#include "pool/model/state.h"

namespace xoe::pool {

// What a command of one turn changes.
struct Turn {
  State& state;
  Journal& journal;
  Time now;
};

// Which lines of the audit log came within the last kLinePause: what changes with each report is told once in that
// time. Of so many; then it begins again, and a line may come again sooner.
inline constexpr std::size_t kMostRecentLines = 10'000;
class RecentLines {
 public:
  // Whether the line may come now; then it counts as told.
  bool take(std::string line, Time now);
  void clear() { told_.clear(); }
  std::size_t size() const noexcept { return told_.size(); }
  // With the clock.
  void move_times(Span by);

 private:
  std::map<std::string, Time> told_;
};

// One thread at a time.
class HostBook {
 public:
  // `agent`: who tells it; empty: an admin, who may for every host.
  Status take(const Turn& turn, const HostReport& report, std::string_view agent);
  // Hosts that have been silent for too long are offline.
  Status watch(const Turn& turn);
  // With its GPUs. `invalid_argument`: there is none, it is online, or a lease needs one of its GPUs.
  Status forget_host(const Turn& turn, const User& actor, const std::string& name);
  // With the clock, so that what was heard is as old as before.
  void move_times(Span by) {
    missing_.move_times(by);
    recent_.move_times(by);
  }
  // Unleased use is told again.
  void tell_again() {
    unleased_.clear();
    recent_.clear();
  }

 private:
  Status save_facts(const Turn& turn, const HostReport& report, std::string_view agent);
  Status note_unleased(const Turn& turn, const Gpu& gpu);
  Status forget_gpu(const Turn& turn, const std::string& uuid, std::string_view actor, std::string_view why);
  Status forget_host(const Turn& turn, const std::string& name, std::string_view actor, std::string_view why);
  Status make_room(const Turn& turn, const HostReport& report);
  Status check_machine(const Turn& turn, const HostReport& report);

  std::map<std::string, std::string, std::less<>> unleased_;  // by GPU: who uses it without a lease
  MissingGpus missing_;
  RecentLines recent_;
};

}  // namespace xoe::pool

// What the pool says, look after look, and whether it may say so: the checks of a simulated lab.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "pool/tests/sim/schedule.h"
#include "pool/tests/sim/snapshot.h"

namespace xoe::pool::sim_tests {

class Ledger {
 public:
  // calm: nothing goes wrong in this schedule. connected: clients and programs at most.
  Ledger(const Schedule& schedule, bool calm, bool connected)
      : schedule_(schedule), calm_(calm), connected_(connected) {}

  // The next snapshot to read.
  std::int64_t last_event() const { return last_event_; }
  std::int64_t first_lease() const;
  // serves: the server runs, and was left alone for long enough to do what is due.
  void look(const Snapshot& now, sim::Time at, bool serves);
  // The last time at which the agent of a host could report.
  void could_report(const std::string& host, sim::Time at) { heard_[host] = at; }
  // The `run` with this purpose has ended.
  void run_ended(const std::string& purpose, sim::Time at) { ended_runs_[purpose] = at; }
  // A client says that it has this lease.
  void acknowledge(std::int64_t lease, const std::vector<std::string>& gpus) { told_[lease] = gpus; }
  // The server's clock jumped; what it says of spans may differ by so much more.
  void jumped(sim::Time by);
  // The server's machine started with a clock that had jumped: open leases may be longer or shorter.
  void lost_its_clock();
  // At the end so many leases are open.
  void conclude(const Snapshot& last, std::size_t open);

  std::vector<std::string> problems;
  std::string audit;  // all lines of the log
  std::size_t leases() const { return leases_.size(); }
  // The numbers of leases that are open, or wait.
  std::vector<std::int64_t> open() const;

 private:
  struct Seen {
    LeaseRow row;
    sim::Time granted_after = 0, granted_before = 0;  // between these two looks
    sim::Time ended_after = 0, ended_before = 0;
    bool granted = false, ended = false, claimed = false, asked_to_give_way = false;
    bool is_exempt = false;  // of checks of its length
    std::optional<Time> promised = {};
    bool may_be_late = false;
    bool was_idle = false;  // its program, or none, at some look since it was granted
    sim::Time computing_since = -1;
    sim::Time used_at = 0;  // by anything, at the last look that saw it
  };

  void problem(std::string text);
  void replay(const pool::Event& event);
  void grant(Seen& seen, const pool::Event& event);
  void end(Seen& seen, const pool::Event& event);
  void check_limits(const pool::Event& event);
  void check_rows(const Snapshot& now);
  void check_row(Seen& seen, const LeaseRow& row);
  void check_end(const Seen& seen);
  void check_open(const Seen& seen);
  void check_idle(Seen& seen);
  bool is_computing(const Seen& seen, sim::Time until) const;
  void check_told();

  const Schedule& schedule_;
  const bool calm_, connected_;
  sim::Time before_ = 0, at_ = 0;
  bool serves_ = false;
  sim::Time slack_ = 0;
  std::int64_t last_event_ = 0;
  std::map<std::int64_t, Seen> leases_;
  std::map<std::string, std::int64_t> holders_;  // by GPU, as the log tells
  std::map<std::int64_t, std::vector<std::string>> told_;
  std::map<std::string, sim::Time> ended_runs_;  // by purpose
  std::map<std::string, sim::Time> heard_;       // by host
  std::map<std::string, Span> held_;             // by user, of leases that have ended
};

}  // namespace xoe::pool::sim_tests

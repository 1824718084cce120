// The process between the launcher and the ranks.
//
// It starts the ranks, waits for them, and adopts whatever they leave behind (it is a subreaper), so nothing that
// descends from a rank can leave its sight. When the launcher dies it kills all of it; when it dies itself, the
// kernel kills the ranks and the launcher, a subreaper too, adopts and kills the rest.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "launch/spawn.h"

namespace xoe::launch {

// Messages travel over a SOCK_SEQPACKET pair between two copies of one program, so they are plain structs.
struct GuardianCommand {
  enum class Kind : std::uint8_t {
    kSignal,   // to the process group of each rank, and to what ranks that ended left behind
    kKillAll,  // SIGKILL to everything, until nothing is left
    kRestart,  // starts `rank`, which has ended, anew
    kSettled,  // no rank will be started anew
  };
  Kind kind = Kind::kSignal;
  int signal = 0;
  int rank = 0;
};

struct GuardianEvent {
  enum class Kind : std::uint8_t {
    kStartFailed,  // rank, value: errno; no further rank is started
    kEnded,        // rank, pid, value: its wait status; in the order in which ranks ended
    kAllGone,      // the last event: no descendant is left
    kHostLost,     // from a crew of several hosts only; value: how many of its ranks had not ended
  };
  Kind kind = Kind::kAllGone;
  int rank = -1;
  pid_t pid = -1;
  int value = 0;
  std::chrono::nanoseconds ran = {};  // kEnded: since its start
};

class Guardian {
 public:
  // `control`: its end of the pair. The requests' descriptors are closed when all ranks were started. `restarts`: ranks
  // may be started anew until the launcher says that they will not; nothing is closed, and run() goes on, until then.
  Guardian(Fd control, std::vector<SpawnRequest> requests, bool restarts);

  // Returns when no descendant is left, or when the rest cannot be killed.
  void run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    pid_t pid = -1;
    Fd pidfd = {};
    pid_t group = -1;  // of the process that led it last
    Clock::time_point started = {};
  };

  bool start_all();
  bool start(std::size_t rank);
  void restart(std::size_t rank);
  void close_streams();
  bool handle_events();  // false: the launcher is gone or wants the end
  void reap_ranks();
  void reap(std::size_t rank);
  bool reap_orphans();  // true: no child is left
  void signal_all(int signal);
  void kill_all();
  void report(GuardianEvent event);

  Fd control_;
  std::vector<SpawnRequest> requests_;
  bool restarts_;
  std::vector<Rank> ranks_;
  Fd ended_;  // an epoll of the pidfds: it lists them in the order in which they became readable
  Fd child_signal_;
};

}  // namespace xoe::launch

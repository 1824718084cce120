// The process between the launcher and the ranks.
//
// It starts the ranks, waits for them, and adopts the processes that they leave behind (it is a subreaper), so that no
// descendant of a rank escapes it. When the launcher dies it kills them all; when it dies itself, the kernel kills the
// ranks and the launcher, a subreaper too, adopts and kills the rest.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "launch/remote/spawn.h"

namespace xoe::launch {

// Messages travel over a SOCK_SEQPACKET pair between two copies of one program, so they are plain structs.
inline constexpr std::size_t kMostDeviceName = 95;
struct SupervisorCommand {
  enum class Kind : std::uint8_t {
    kSignal,          // to the process group of each rank, and to processes that ended ranks left behind
    kEnd,             // the same with SIGTERM, which also reaches stopped ones, because the job ends
    kKillAll,         // SIGKILL to every descendant, until none is left
    kRestart,         // restarts `rank`, which has ended, or starts one that has not been started yet
    kSignalRank,      // to the process group of `rank`, or what is left of it
    kNoMoreRestarts,  // no rank will be restarted
    kReport,          // answered by kReported
  };
  Kind kind = Kind::kSignal;
  int signal = 0;
  int rank = 0;
  // kRestart: what CUDA_VISIBLE_DEVICES is from now on; empty: as it was.
  std::array<char, kMostDeviceName + 1> device = {};
};

struct SupervisorEvent {
  enum class Kind : std::uint8_t {
    kStartFailed,     // rank, value: errno; no further rank is started
    kEnded,           // rank, pid, value: its wait status; in the order in which ranks ended
    kAllGone,         // the last event: no descendant is left
    kSupervisorLost,  // it was killed; value, as in kHostLost: how many of its ranks are not known to have ended
    kHostLost,        // from RemoteProcesses only
    kSignalled,       // from RemoteProcesses only; value: a signal that a host got for the job
    kReported,        // all that had happened when kReport came has been told
    kHostCame,   // from RemoteProcesses only, as those below: ranks can be started there; slots_of() has their slots
    kHostGoes,   // it will be gone at `at`, or has `value` seconds from when it may leave
    kHostStays,  // kHostGoes of the second kind no longer holds
    kNews,       // of hosts that come or cannot: take_host_failures() has the lines
  };
  Kind kind = Kind::kAllGone;
  int rank = -1;
  pid_t pid = -1;
  int value = 0;
  std::chrono::nanoseconds ran = {};  // kEnded: since its start
  bool asked = false;                 // kEnded: after kEnd or kKillAll had reached it
  // When it happened; of a lost host, when it was last heard of.
  std::chrono::steady_clock::time_point at = {};
  std::size_t host = 0;  // its index, from RemoteProcesses
};

class Supervisor {
 public:
  // `control`: its end of the pair. The requests' descriptors are closed when all ranks were started. `restarts`: ranks
  // may be restarted; until the launcher sends kNoMoreRestarts the descriptors stay open and run() goes on. `first`:
  // how many of the ranks are started now.
  Supervisor(Fd control, std::vector<remote::SpawnRequest> requests, bool restarts, std::size_t first);

  // Returns when no descendant is left, or when the remaining ones cannot be killed.
  void run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    pid_t pid = -1;
    Fd pidfd = {};
    pid_t group = -1;  // the process group that it led last
    Clock::time_point started = {};
    bool asked = false;                             // to end
    std::optional<Clock::time_point> exiting = {};  // before the first rank that failed had ended
    std::string device = {};
    std::vector<char*> environment = {};  // with the device, once it was given one
  };

  bool start_all();
  bool start(std::size_t rank);
  void restart(const SupervisorCommand& command);
  void signal_rank(std::size_t rank, int signal);
  void give_device(std::size_t rank, const char* device);
  void close_streams();
  bool handle_commands();  // false: the launcher is gone or ends the job
  void reap_ranks();
  void reap(std::size_t rank);
  void look_for_exiting(Clock::time_point first_failure);
  bool reap_orphans();  // true: no child is left
  void signal_all(int signal);
  void note_asked();
  void kill_all();
  void report(SupervisorEvent event);

  Fd control_;
  std::vector<remote::SpawnRequest> requests_;
  bool restarts_;
  std::size_t first_;
  std::vector<Rank> ranks_;
  Fd ended_;  // an epoll of the pidfds: it lists them in the order in which they became readable
  Fd child_signal_;
  bool failed_ = false;  // a rank has
};

}  // namespace xoe::launch

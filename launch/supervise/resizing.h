// A job whose number of ranks changes while it runs: because ranks and hosts fail, and others go on (--min-np), because
// hosts come and go, or as the program asks that has the other end of a socket: `xoe pool run`, which gets GPUs and
// gives them back.
//
// A rank lives in a slot: a place in the job, on one host, with a GPU of its own. Requests and answers are lines:
//   join GPU            start a rank with this GPU; it becomes a member when it is ready: "joined GPU", or
//                       "failed GPU WHY"
//   leave GPU SECONDS   take the rank with this GPU out, at the next step: "left GPU". After SECONDS it is ended;
//                       one that is no member yet is ended at once
// and "refused GPU WHY" for a request that cannot be met. Each change is a version of the world: it begins when the one
// before has formed, and ranks go over to it at a step that they agree on (bootstrap/world_page.h).
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "core/bootstrap/store_service.h"
#include "core/bootstrap/world_members.h"

namespace xoe::launch {

// What it has its launcher do.
struct ResizeActions {
  std::function<void(int slot, const std::string& device)> start;
  std::function<void(int slot, int signal)> signal;  // to all processes of the rank
  // With members(); calls begun(). all_live: no member of the last version that has formed is lost.
  std::function<void(bool all_live)> begin_world;
  std::function<void()> formed;                // all members of that world have joined
  std::function<void(std::string line)> tell;  // the user
  std::function<void(std::size_t host)> left;  // no process of the job is in its slots, nor will be
};

// A slot at the start of the job.
struct Place {
  std::size_t host = 0;
  std::string device = {};
  enum class Is : std::uint8_t { kAbsent, kFree, kMember } is = Is::kMember;
};

struct ResizeLimits {
  int least = 0;  // ranks: with fewer the job does not go on without one that fails; 0: it never does
  int most = 0;   // free slots get ranks until there are so many; 0: they do not
  std::chrono::nanoseconds grace = std::chrono::seconds(5);  // between SIGTERM and SIGKILL
  std::chrono::nanoseconds interval = {};                    // at least, from one change to ranks that join
};

class Resizing {
 public:
  using Clock = std::chrono::steady_clock;
  Resizing(Fd control, std::span<const Place> places, const ResizeLimits& limits, ResizeActions actions);

  int fd() const noexcept { return control_.get(); }  // -1: the other program has closed it
  // The events of it that look() waits for.
  short events() const noexcept { return static_cast<short>(answers_.empty() ? POLLIN : POLLIN | POLLOUT); }
  // The slots of the world's ranks, in order.
  std::vector<int> members() const;
  // The same with their hosts.
  std::vector<bootstrap::WorldMember> world() const;
  void begun(int version);
  // Takes what has arrived from the other program and in the store, and what is due.
  // may_start: no event waits that may tell of hosts on which ranks would be started.
  void look(const bootstrap::StoreService& store, Clock::time_point now, bool may_start);
  std::optional<Clock::time_point> next() const;
  enum class End : std::uint8_t {
    kOfMember,  // it counts for the job
    kApart,     // of a rank that the others can do without
    kAsTold,    // the same, and it was to leave
    kHarmful,   // the same, but it failed by itself while the others may have waited for it
  };
  // A rank has ended, or could not be started. `failed`: it did not end well.
  End ended(int slot, bool failed, const std::string& how);
  // A member has failed, without which the others go on: in a world that begins at once. False: too few would be left,
  // or it is no member.
  bool lose(int slot);
  // The same for all slots of a host that was lost, whose processes are gone.
  bool lose_host(std::size_t host);
  // A rank of the host counts for the job: it does not just leave, or wait to join.
  bool has_member(std::size_t host) const;
  // Whether the rank comes with a version that has not formed yet.
  bool is_joining(int slot) const;
  // Such a rank cannot be reached by the others, which form a version without it; nothing is started in its slot any
  // more. The same for all that join from its host, if none of it is a member.
  void bar(int slot);
  // Whether a world has formed so far.
  bool has_formed() const noexcept { return has_formed_; }
  // A member has failed, and starts again as one. If no other one is left that has been in a world that has formed,
  // those that are starting become members of the next version, too; it is to be begun. False: another one is left.
  bool begin_together(int slot);
  // The same for one that was lost, and whose process is about to be started. False: its host is leaving, or gone.
  bool take_along(int slot);
  // Starts a process in the slot of a member that was lost.
  void bring_back(int slot);
  // The host is there, with these slots, which may be new.
  void take_host(std::size_t host, std::span<const int> slots);
  // The hosts on which ranks are or can be started, and that do not leave.
  std::set<std::size_t> hosts_that_stay() const;
  // Whether all that is on the host is leaving already.
  bool host_leaves(std::size_t host) const;
  // The host will be gone: its ranks leave at the next step, and left() is called when they have. Ranks
  // that are there at the deadline are ended. False: too few would be left; nothing changes.
  bool leave_host(std::size_t host, Clock::time_point deadline);
  // Whether the rank shall leave, so that a process that has ended in its slot is not started again.
  bool leaves(int slot) const;
  // The job ends: nothing joins any more, and what is not a member yet is ended.
  void stop();

 private:
  enum class State : std::uint8_t {
    kAbsent,  // its host is not there
    kFree,
    kStarting,  // its process runs, or will in a moment, and is no member yet
    kJoining,   // a member of a version that has not formed: the world can do without it
    kMember,
    kAsked,    // a member that shall leave in the next version
    kLeaving,  // no member any more; its process has not ended yet
  };
  struct Slot {
    State state = State::kFree;
    std::size_t host = 0;
    std::string device = {};
    bool barred = false;     // for as long as its host is there: what runs in it cannot be reached by the others
    bool failed = false;     // the last process in it: no other one is started there by itself
    bool going = false;      // so is its host
    bool fresh = false;      // a member whose process has been in no world that has formed
    bool signalled = false;  // by the launcher: it does not end by itself any more
    std::optional<Clock::time_point> terminate_at = {};
    std::optional<Clock::time_point> kill_at = {};
  };

  void read(Clock::time_point now);
  void take(std::string_view line, Clock::time_point now);
  void join(const std::string& device);
  void leave(const std::string& device, std::string_view seconds, Clock::time_point now);
  void change_world(const bootstrap::StoreService& store, Clock::time_point now);
  bool may_join(const bootstrap::StoreService& store, Clock::time_point now);
  bool is_ready(const bootstrap::StoreService& store, const Slot& slot) const;
  void fill();
  void begin_world(bool all_live);
  void clear(Slot& slot);
  int staying() const;
  void run_timers(Clock::time_point now);
  void end(Slot& slot, Clock::time_point now);
  void signal(Slot& slot, int signal);
  Slot* with_device(const std::string& device);
  int number_of(const Slot& slot) const { return static_cast<int>(&slot - slots_.data()); }
  void answer(std::string_view what, const std::string& device, std::string_view why = {});
  void send_answers();

  Fd control_;
  ResizeLimits limits_;
  ResizeActions actions_;
  std::vector<Slot> slots_;
  std::string input_;
  std::string answers_;  // for which the socket had no room yet
  int version_ = 0;
  bool formed_ = false;
  bool has_formed_ = false;  // this version, or an earlier one
  std::optional<Clock::time_point> formed_at_ = {};
  std::optional<Clock::time_point> ready_since_ = {};  // the first of those that wait to join
  bool stopped_ = false;
};

}  // namespace xoe::launch

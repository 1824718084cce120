// Everything that the pool knows and decides by: plain values, as they stand in the database.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool/model/time.h"

namespace xoe::pool {

inline constexpr std::size_t kMaxGpus = 1024;  // of one pool

struct GpuProcess {
  std::int64_t pid = 0;
  std::string user = {};     // empty: not known
  std::uint64_t memory = 0;  // bytes of the GPU; 0: not known
  double cpu = 0;            // CPUs that it and its descendants used since the last report
  bool operator==(const GpuProcess&) const = default;
};

// GPUs whose names begin so are given to virtual machines, or by a Slurm cluster; the others to programs.
inline constexpr std::string_view kVmGpuPrefix = "vsphere:";
inline constexpr std::string_view kSlurmGpuPrefix = "slurm:";
enum class Backend : std::uint8_t { kHost, kVsphere, kSlurm };

// A whole GPU, a MIG instance, or a vGPU.
struct Gpu {
  // What stays.
  std::string uuid = {};  // "GPU-..." or "MIG-..."
  std::string host = {};
  std::string name = {};  // "Tesla T4"
  std::string pci = {};
  std::uint64_t memory = 0;               // bytes
  std::vector<std::string> nvlinks = {};  // UUIDs of the GPUs that it has a direct NVLink to
  bool operator==(const Gpu&) const = default;
  Backend backend() const {
    if (uuid.starts_with(kVmGpuPrefix)) return Backend::kVsphere;
    return uuid.starts_with(kSlurmGpuPrefix) ? Backend::kSlurm : Backend::kHost;
  }
};

// unleased: a program uses it without a lease.
enum class GpuUse : std::uint8_t { kFree, kLeased, kUnleased, kOffline };
inline constexpr std::array<std::string_view, 4> kGpuUseNames = {"free", "leased", "unleased", "offline"};
constexpr const auto& names_of(GpuUse) { return kGpuUseNames; }

// A program may stop its work for so long, as to load a batch.
inline constexpr Span kPause = std::chrono::seconds(30);

// What an agent saw of a GPU last. Not stored: the next report tells it again.
struct GpuActivity {
  std::optional<int> utilisation = 0;  // per cent; nullopt: not known, as of a MIG instance
  int temperature = 0;                 // degrees Celsius; 0: not known
  std::uint64_t memory_used = 0;
  std::vector<GpuProcess> processes = {};
  bool processes_known = true;  // false: the driver does not list them, as to an agent without rights to MIG instances
  // The agent keeps its device file closed to all but these users, and root; nullopt: it does not.
  std::optional<std::vector<std::string>> open_to = {};
  // When a lease of it ended, if no report has told since what that left running.
  std::optional<Time> stale_since = {};
  // When a report last showed work without a lease by processes that the driver does not list, within kPause.
  std::optional<Time> worked = {};

  bool is_stale() const { return stale_since.has_value(); }
  // Per cent; processes count as work where the driver does not tell, even those that it may hide.
  int work() const { return utilisation.value_or(processes.empty() && processes_known ? 0 : 100); }
  bool is_closed_to(const std::string& user) const {
    return open_to && std::ranges::find(*open_to, user) == open_to->end();
  }
};

// A virtual machine, as the agent of its vCenter saw it last. Not stored: the next report tells it again.
struct Vm {
  std::string name = {};
  std::string host = {};
  bool running = false;
  bool has_reserved = false;            // all of its memory, without which it cannot start with a GPU
  bool may_cycle = false;               // the agent may shut it down and start it again
  int devices = 0;                      // passthrough devices of any kind
  std::vector<std::string> gpus = {};   // of the pool's, that it has
  std::vector<std::string> users = {};  // who may have leases for it: "ann", "@team"; none: every user
  std::string problem = {};             // why it has not what it should
  bool operator==(const Vm&) const = default;
};
inline constexpr int kMaxVmDevices = 16;  // vSphere's limit

// What a virtual machine shall have: the agent of its vCenter makes it so.
struct VmAssignment {
  std::string vm = {};
  std::vector<std::int64_t> leases = {};    // that are open
  std::vector<std::string> gpus = {};       // of them
  std::vector<std::string> take_back = {};  // that it got for a lease which has ended
  bool power_cycle = false;
  bool operator==(const VmAssignment&) const = default;
};

// A lease that a cluster's agent makes an allocation of.
struct ClusterLease {
  std::int64_t id = 0;
  std::string user = {};
  std::string host = {};
  std::vector<std::string> gpus = {};
  Time ends = {};
  Span left{0};  // until then
  bool operator==(const ClusterLease&) const = default;
};

// What the agent of a host tells.
struct HostReport {
  std::string host = {};
  std::string machine = {};  // which one reports: another text for each start of each machine; empty: it does not say
  std::string without = {};  // why it has no GPUs
  std::vector<Gpu> gpus = {};
  std::vector<GpuActivity> activity = {};  // of each of them
  std::vector<Vm> vms = {};
  std::string problem = {};  // why a lease has not what it should, or what is left out
  Span age{0};               // how long ago the agent began to look at its GPUs

  void add_problem(std::string_view what) { problem.append(problem.empty() ? "" : "; ").append(what); }
};

struct Host {
  std::string name = {};
  Time heard = {};           // the last report
  bool online = false;       // heard of within the policy's time
  std::string without = {};  // why it has no GPUs: "no driver"; empty: it has
  std::string problem = {};  // of its last report
  std::string machine = {};  // of its last report; not stored
  // Another machine that reports under this name, and is refused; not stored.
  std::string rival = {};
  Time rival_heard = {};
  std::string agent = {};  // the user whose reports of it are taken; empty: any agent's
};

enum class Role : std::uint8_t { kAgent, kUser, kLead, kAdmin };
inline constexpr std::array<std::string_view, 4> kRoleNames = {"agent", "user", "lead", "admin"};
constexpr const auto& names_of(Role) { return kRoleNames; }

struct User {
  std::string name = {};
  std::string team = {};
  Role role = Role::kUser;
  std::string token_hash = {};
  int max_gpus = 0;      // at once; 0: no limit of its own
  int max_priority = 0;  // that it may ask with
  bool idle_exempt = false;
  bool operator==(const User&) const = default;
};

struct Team {
  std::string name = {};
  int quota = 0;           // GPUs that it can count on
  bool may_borrow = true;  // what other teams leave unused of theirs
  bool operator==(const Team&) const = default;
};

// What a user asks for.
struct LeaseRequest {
  int gpus = 1;
  std::string type = {};     // part of the GPU's name, in any case: "t4"
  std::uint64_t memory = 0;  // at least, bytes of each
  bool same_nvlink = false;  // each linked to each
  bool any_host = false;     // several hosts may give them
  std::string host = {};     // this one; empty: any
  // Its holder can do without them: it is asked first, and at any time, and gives them back in time.
  bool yields = false;
  bool device_rule = false;  // its program runs in a cgroup that keeps it from other GPUs; else it is only asked to
  Span duration = std::chrono::hours(4);
  int priority = 0;
  std::optional<Time> at = {};          // a reservation: from then on, neither earlier nor later
  bool wait = false;                    // in the queue; otherwise now or not at all
  std::string purpose = {};             // one line for the others
  std::vector<std::string> exact = {};  // these GPUs and no others (adopt)
  std::string vm = {};                  // they are given to this virtual machine, instead of to programs
  bool power_cycle = false;             // which may be shut down and started again for them
  bool slurm = false;                   // they become an allocation of a Slurm cluster

  Backend backend() const {
    if (!vm.empty()) return Backend::kVsphere;
    return slurm ? Backend::kSlurm : Backend::kHost;
  }
};

enum class LeaseState : std::uint8_t { kWaiting, kOpen, kEnded };
inline constexpr std::array<std::string_view, 3> kLeaseStateNames = {"waiting", "open", "ended"};
constexpr const auto& names_of(LeaseState) { return kLeaseStateNames; }

// How far the reclaim of an idle lease has got.
enum class IdlePhase : std::uint8_t { kBusy, kWarned, kSignalled };
inline constexpr std::array<std::string_view, 3> kIdlePhaseNames = {"busy", "warned", "signalled"};
constexpr const auto& names_of(IdlePhase) { return kIdlePhaseNames; }

// A holder was asked to give way.
struct GiveWay {
  Time asked = {};
  std::optional<Time> by = {};  // the lease ends then; nullopt: only asked
  std::int64_t for_lease = 0;
  bool operator==(const GiveWay&) const = default;
};

// What a user can make happen to a lease again and again is told in one line of the audit log in so long.
inline constexpr Span kLinePause = std::chrono::minutes(1);

// What the audit log has of such changes.
struct Logged {
  Time expires = {};  // the end; where the lease has another one, a line of it is due a while after `renewed`
  Time renewed = {};  // when the log got a line of that end
  std::optional<Time> promised = {};  // the earliest start that the log has while it waits
  // Of a lease that waits; not stored.
  Time postponed = {};
  bool is_late = false;  // it was postponed since then
  // An open lease has these; they are not stored.
  Time idle = {};             // the last warning
  bool is_idle_news = false;  // it is idle again since then, which no line tells yet
};

// From the moment of asking to the end: it waits, is open, has ended. Its id never changes.
struct Lease {
  std::int64_t id = 0;
  std::string user = {};
  std::string team = {};
  LeaseRequest request = {};
  std::string token_hash = {};
  LeaseState state = LeaseState::kWaiting;
  Time asked = {};

  // Waiting: when it will start, and with what; nullopt: not known. Open: what it holds.
  std::optional<Time> starts = {};
  std::vector<std::string> gpus = {};
  int position = 0;      // in the queue, from 1
  std::string why = {};  // it waits; of an ended one, why it ended

  Time begins = {};
  Time expires = {};
  Time ended = {};
  std::optional<GiveWay> give_way = {};
  Logged logged = {};
  bool expiry_warned = false;
  IdlePhase idle_phase = IdlePhase::kBusy;
  Time idle_phase_since = {};
  bool idle_exempt = false;
  bool borrowed = false;  // beyond the quota of its team
  // It waited for its GPUs, and its client has not asked for it since it has them: perhaps it is gone, and will never
  // know. Then it ends as it would have left the queue.
  bool unclaimed = false;

  bool is_open() const noexcept { return state == LeaseState::kOpen; }
  bool is_waiting() const noexcept { return state == LeaseState::kWaiting; }
  // Only while its client asks for it. A reservation needs no client.
  bool needs_client() const noexcept { return is_waiting() ? !request.at : is_open() && unclaimed; }
  // When the audit log tells of a renewal that it has not told of; nullopt: there is none.
  std::optional<Time> renewal_due() const {
    return is_open() && logged.expires != expires ? std::optional(logged.renewed + kLinePause) : std::nullopt;
  }
  // When an open lease ends at the latest.
  Time ends() const noexcept { return give_way && give_way->by ? std::min(expires, *give_way->by) : expires; }
};

// One line of the audit log.
struct Event {
  std::int64_t number = 0;
  Time at = {};
  std::string actor = {};    // a user, or "pool"
  std::string kind = {};     // "granted"
  std::int64_t lease = 0;    // 0: of none
  std::string subject = {};  // GPUs, or the user, team or host that it is about
  std::string why = {};
};

enum class GiveWayPolicy : std::uint8_t { kOff, kAsk, kReclaim };
inline constexpr std::array<std::string_view, 3> kGiveWayPolicyNames = {"off", "ask", "reclaim"};
constexpr const auto& names_of(GiveWayPolicy) { return kGiveWayPolicyNames; }

struct IdlePolicy {
  bool on = false;
  Span window = std::chrono::minutes(30);             // over which utilisation is averaged; at least kMinIdleWindow
  double utilisation = 5;                             // per cent: below, a GPU is idle
  Span no_process_window = std::chrono::minutes(15);  // a lease without any process is idle after this
  bool cpu_counts = false;                            // processes that use a CPU keep the lease
  Span warn_grace = std::chrono::minutes(10);         // from the warning to the signal
  Span signal_grace = std::chrono::minutes(5);        // from the signal to the end
};
inline constexpr Span kMinIdleWindow = std::chrono::minutes(1);

struct Policy {
  Span max_duration = std::chrono::hours(7 * 24);
  Span min_runtime = std::chrono::minutes(30);  // before a holder is asked to give way
  GiveWayPolicy give_way = GiveWayPolicy::kAsk;
  Span give_way_grace = std::chrono::minutes(5);
  Span expiry_warning = std::chrono::minutes(15);
  Span host_timeout = std::chrono::seconds(30);  // an agent that is silent for longer is offline
  int max_waiting = 32;                          // leases of one user in the queue
  // A client that is silent for longer leaves the queue, or loses the lease that it got from there.
  Span waiting_timeout = std::chrono::minutes(2);
  IdlePolicy idle = {};
};

// How the clock of a machine was set.
struct ClockMark {
  std::string machine = {};  // a text of its own for each of its starts
  Span offset{0};            // of the wall's time from the time since that start
};

struct State {
  Policy policy = {};
  std::map<std::string, Host, std::less<>> hosts = {};
  std::map<std::string, Gpu, std::less<>> gpus = {};
  std::map<std::string, GpuActivity, std::less<>> activity = {};  // of GPUs that their host's last report had
  std::map<std::string, Vm, std::less<>> vms = {};                // that their host's last report had
  std::map<std::string, User, std::less<>> users = {};
  std::map<std::string, Team, std::less<>> teams = {};
  std::map<std::int64_t, Lease> leases = {};  // those that wait or are open
  std::int64_t next_lease = 1;
  std::optional<Time> begun = {};  // the first turn of this process: before it, no report could be heard

  const Lease* holder_of(std::string_view uuid) const;
  // Its host is online and its last report had it.
  bool is_present(const Gpu& gpu) const;
  // The device files of all GPUs of an open lease are kept closed to other users.
  bool is_guarded(const Lease& lease) const;
  // Some of them are still closed to its user: the agent does not know of it yet, or cannot open them.
  bool is_closed_to_holder(const Lease& lease) const;
  // The processes on a GPU that no lease covers. A driver may list none on a GPU that is used: see is_used().
  const std::vector<GpuProcess>& unleased_processes(const Gpu& gpu) const;
  // Its last report shows a utilisation that is not idle.
  bool works(const Gpu& gpu) const;
  // So it does, and lists no process.
  bool works_unlisted(const Gpu& gpu) const;
  // Its last report shows a process, or more work or memory than a GPU has without any; also while work that no process
  // explains may pause.
  bool is_used(const Gpu& gpu) const;
  // An agent sees what an open lease does: a GPU of it is seen to be used, or the drivers tell of all of them.
  bool is_seen(const Lease& lease) const;
  // holder: as holder_of() tells. What a GPU that was given back shows until the next report may be of its last holder:
  // it is free.
  GpuUse use_of(const Gpu& gpu, const Lease* holder) const;
  // One of the GPUs of a lease that waits was given back after the last report of its host.
  bool awaits_report(const Lease& lease) const;
  bool is_used_without_lease(const Gpu& gpu) const { return is_used(gpu) && holder_of(gpu.uuid) == nullptr; }
};

// The names of the enumerations above, and the way back.
template <class Enum>
requires requires { names_of(Enum()); }
std::string_view name_of(Enum value) { return names_of(value)[static_cast<std::size_t>(value)]; }
template <class Enum>
std::optional<Enum> value_named(std::string_view name) {
  const auto& names = names_of(Enum());
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<Enum>(found - names.begin()));
}

}  // namespace xoe::pool

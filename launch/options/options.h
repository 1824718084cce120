// The user's options of `xoe run`.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/remote/host_list.h"
#include "launch/remote/launch_method.h"

namespace xoe::launch {

enum class Binding : std::uint8_t { kNone, kCore, kSocket, kNuma };
enum class MapBy : std::uint8_t { kSlot, kNode, kSocket };

// Where the ranks run, and how to get there.
struct HostOptions {
  std::vector<remote::Host> hosts = {};
  std::string hostfile = {};
  MapBy map_by = MapBy::kSlot;
  bool oversubscribe = false;
  std::string network_interface = {};  // names and networks, comma separated
  // Until plan_hosts() fills them in, xoe_path may be empty and host_timeout 0: not given.
  remote::ConnectOptions connect = {.host_timeout = {}};
  int fan_out = 64;  // most hosts that the launcher, or an agent, reaches itself; 0: the launcher reaches all
  bool bind_gpus = true;
  bool dry_run = false;
  bool check = false;
};

// What Xoe's shared-memory backend connects (shm::kMaxRanks).
inline constexpr int kMaxRanksPerHost = 512;

inline constexpr int kMostMembers = 65536;
inline constexpr int kMostRestarts = 10'000;

// One `xoe run` on each host, which meet.
struct RendezvousOptions {
  std::string at = {};  // "auto", or member 0's HOST[:PORT]; empty: this `xoe run` is the only one
  int node_rank = -1;   // this member's index; -1: from the environment
  int nodes = 0;        // number of members; 0: from the environment
  std::string secret_file = {};
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);  // for all to be there
};

// Ranks and hosts that are lost while the others go on, or come.
struct ElasticOptions {
  int least = 0;  // ranks: the job goes on while so many are left; 0: it ends with the first that fails
  int most = 0;   // ranks that there may be; 0: not given
  // A program that prints the hosts there are now, a line for each: "HOST" or "HOST:SLOTS"; empty: they stay the same.
  std::string discovery = {};
  int slots_per_host = 1;  // where it prints no number
  // For how long a host that failed is left out: the first, and the longest time. Each is twice the one before.
  std::chrono::nanoseconds cooldown = std::chrono::seconds(10);
  std::chrono::nanoseconds longest_cooldown = std::chrono::minutes(5);
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);  // until there are enough slots for `least`
  std::vector<std::string> notices = {};                        // sources of `xoe notice`, which every host watches
  std::chrono::nanoseconds interval = std::chrono::seconds(1);  // at least, from one change to ranks that join
  bool changes_hosts() const noexcept { return !discovery.empty(); }
};

struct RunOptions {
  int size = 0;  // 0: as many ranks as the hosts have slots
  Binding binding = Binding::kNone;
  std::string output_dir = {};  // empty: no files
  bool tag_output = true;
  std::optional<std::vector<int>> only_ranks = {};  // whose output is shown; unset: all
  bool color = true;                                // of the tags, on a terminal
  bool terminal = false;                            // stdout is one and the only place, so that ranks may draw bars
  bool panel = false;                               // a panel at the bottom of it
  std::optional<bool> wants_panel = {};             // unset: where stdout is a terminal with more than a rank
  std::optional<std::chrono::nanoseconds> timeout = {};      // of the whole job
  std::chrono::nanoseconds grace = std::chrono::seconds(5);  // between SIGTERM and SIGKILL
  // After SIGTERM or SIGHUP, for the ranks that still run when another has ended.
  std::chrono::nanoseconds signal_limit = std::chrono::minutes(5);
  int restarts = 0;  // of ranks that failed, in all
  std::vector<std::pair<std::string, std::string>> env = {};
  std::vector<std::string> pass_env = {};  // the launcher's own variables, by name
  std::string backend = {};                // empty: the one that suits the topology
  std::vector<std::string> devices = {};   // GPUs, one for each rank; empty: as they are
  // The number of ranks changes, up to most_ranks, as the program asks that has the other end of this socket; -1: it
  // does not. See supervise/resizing.h.
  int resize_fd = -1;
  int most_ranks = 0;
  ElasticOptions elastic = {};
  bool changes_size() const noexcept { return resize_fd >= 0 || elastic.least > 0; }
  // For how many ranks there is room: streams, variables, a place in the world.
  int slots() const noexcept { return resize_fd < 0 ? size : most_ranks; }
  bool shows(int rank) const { return !only_ranks || std::ranges::find(*only_ranks, rank) != only_ranks->end(); }
  HostOptions where = {};
  RendezvousOptions rendezvous = {};
  bool pool = false;                         // GPUs come from a pool
  std::vector<std::string> pool_words = {};  // options of `xoe pool run`
  std::vector<std::string> notes = {};       // for the user, before the job begins
  std::vector<std::string> command = {};     // program and its arguments
  bool module = false;                       // the program is Python, which is to be found, with -m
};

}  // namespace xoe::launch

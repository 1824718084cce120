// What the user asked `xoe run` for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xoe::launch {

enum class Binding : std::uint8_t { kNone, kCore, kSocket, kNuma };
enum class MapBy : std::uint8_t { kSlot, kNode, kSocket };

struct Host {
  std::string name;
  int slots = 1;
  int max_slots = 0;  // even with --oversubscribe; 0: no limit
  bool operator==(const Host&) const = default;
};

// Where the ranks run, and how to get there.
struct HostOptions {
  std::vector<Host> hosts = {};
  std::string hostfile = {};
  MapBy map_by = MapBy::kSlot;
  bool oversubscribe = false;
  std::string network_interface = {};  // names and networks, comma separated
  int ssh_port = 0;                    // 0: what ssh's configuration says
  std::string ssh_identity_file = {};
  std::string ssh_command = {};
  std::string launch_agent = {};
  int fan_out = 64;           // most hosts that the launcher, or an agent, reaches itself; 0: the launcher reaches all
  std::string xoe_path = {};  // of xoe on the hosts; empty: where it is here
  std::chrono::nanoseconds start_timeout = std::chrono::seconds(30);
  std::chrono::nanoseconds host_timeout = {};  // of silence; 0: XOE_HOST_TIMEOUT, else 10 s
  bool bind_gpus = true;
  bool dry_run = false;
  bool check = false;
};

struct RunOptions {
  int size = 0;  // 0: as many as the hosts have slots
  Binding binding = Binding::kNone;
  std::string output_dir = {};  // empty: no files
  bool tag_output = true;
  bool color = true;                                         // of the tags, on a terminal
  std::optional<std::chrono::nanoseconds> timeout = {};      // of the whole job
  std::chrono::nanoseconds grace = std::chrono::seconds(5);  // between SIGTERM and SIGKILL
  int restarts = 0;                                          // of ranks that failed, in all
  std::vector<std::pair<std::string, std::string>> env = {};
  std::vector<std::string> pass_env = {};  // of the launcher's own, by name
  std::string backend = {};                // empty: what suits the topology
  HostOptions where = {};
  std::vector<std::string> notes = {};    // to the user, before the job begins
  std::vector<std::string> command = {};  // program and its arguments
};

}  // namespace xoe::launch

// Containers and pods: the limits, names, devices and permissions that they give a training.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/cgroup.h"
#include "launch/doctor/checks/host.h"
#include "launch/doctor/facts/tree.h"
#include "launch/doctor/report/finding.h"

namespace xoe::doctor {

// A system call that was tried and refused.
struct RefusedCall {
  std::string name = {};
  std::string error = {};
  std::string loss = {};  // the consequence, where Xoe does without; empty: Xoe needs the call
};

// The host of rank 0: `xoe run --rendezvous auto` asks the same variables.
struct LeaderFacts {
  std::string variable = {};  // "PET_MASTER_ADDR"; empty: no variable leads to it
  std::string host = {};
  std::string address = {};  // as a number; empty: not resolved
  std::string error = {};    // why not; empty: it was not tried
};

// The largest packet that reaches another host. Where a tunnel on the way takes less than this host's interface and
// no message tells so, connections open and then stall.
struct PathMtu {
  enum class State : std::uint8_t {
    kUnknown,  // the host does not answer packets to a closed port: a filter drops them or its answers
    kReached,  // a packet of `mtu` bytes arrived
    kSmaller,  // the way takes `mtu` bytes, less than the interface, and a router says so
    kLost,     // small packets arrive, those of `mtu` bytes do not, and nothing says so
  };
  State state = State::kUnknown;
  std::int64_t mtu = 0;  // bytes, with the IP header; 0: not known
};

// Sends a few UDP packets without fragmentation to a closed port of this address (IPv4 or IPv6, as a number), whose
// host answers that it is closed. Takes at most about `timeout`.
PathMtu probe_path(const std::string& address, std::chrono::milliseconds timeout);

struct ContainerFacts {
  std::string runtime = {};  // as Virtualization::container
  bool tried = false;        // false: a recorded tree, in which no system call, name or packet was tried

  std::optional<std::int64_t> ranks = {};    // that the job's variables ask for in this container
  std::optional<std::int64_t> threads = {};  // OMP_NUM_THREADS

  std::vector<std::string> name_servers = {};
  std::vector<std::string> search = {};    // domains
  bool host_network = false;               // the pod has that of its node
  std::string full_name = {};              // of this pod under its headless Service; empty: it has none
  std::optional<std::int64_t> index = {};  // JOB_COMPLETION_INDEX: a pod of an Indexed Job
  LeaderFacts leader = {};

  std::string interface = {};  // that TCP between hosts would use; empty: none
  std::int64_t mtu = 0;
  std::optional<PathMtu> path = {};  // to the leader; nullopt: not tried

  std::string gpus_wanted = {};               // NVIDIA_VISIBLE_DEVICES, unless it says that there are none
  std::vector<std::string> gpu_devices = {};  // "nvidia0", "nvidiactl", "nvidia-uvm"
  std::string device_refused = {};            // why /dev/nvidiactl cannot be opened

  std::vector<RefusedCall> refused = {};
  bool filtered = false;  // by seccomp

  std::string secret = {};  // the file that XOE_RENDEZVOUS_SECRET_FILE names
  bool secret_read = false;
  std::string secret_error = {};

  std::optional<std::int64_t> uid = {};
  bool named_user = false;         // /etc/passwd has the user
  std::string user_variable = {};  // "USER" or "LOGNAME", which give the name without it; empty: neither is set
  bool read_only_root = false;
  std::string temporary = {};  // TMPDIR, else /tmp
  bool temporary_writable = false;
  std::string home = {};
  bool home_writable = false;
};

// Tries system calls, the leader's name and the path to it where the tree is live, each for at most `timeout`.
ContainerFacts read_container(const Tree& tree, const std::string& runtime,
                              const std::vector<NetworkInterface>& interfaces, std::chrono::milliseconds timeout);
// In a container only.
Findings check_container(const ContainerFacts& facts, const CpuFacts& cpu, const MemoryFacts& memory,
                         const CgroupLimits& limits);

}  // namespace xoe::doctor

// The checks of a host, group by group: read_... gathers facts from its files, check_... judges them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/cgroup.h"
#include "launch/doctor/facts/pci_config.h"
#include "launch/doctor/facts/tree.h"
#include "launch/doctor/report/finding.h"

namespace xoe::doctor {

// Processors: what they can do, how many there are for us, how memory is spread over them.

struct NumaNode {
  int number = 0;
  std::string cpus = {};  // "0-15"
  std::uint64_t memory = 0;
};

struct CpuFacts {
  std::string model = {};
  std::string architecture = {};  // as the kernel names it; empty when not known
  std::set<std::string, std::less<>> flags = {};
  int online = 0;
  int usable = 0;  // that this process may run on
  int cores = 0;   // of the usable ones, hardware threads of one core counted once
  int sockets = 0;
  std::vector<NumaNode> nodes = {};
  // Periods in which this process's control group ran at all, and those at whose end it stood still; 0: not known.
  std::int64_t periods = 0;
  std::int64_t throttled = 0;
};

CpuFacts read_cpu(const Tree& tree);
// `quota`: processors of time that a control group leaves us.
Findings check_cpu(const CpuFacts& facts, std::optional<double> quota);

// Memory and the limits on it.

struct MemoryFacts {
  std::uint64_t total = 0;  // bytes; 0: not known
  std::uint64_t available = 0;
  std::optional<std::uint64_t> shm = {};      // size of /dev/shm; nullopt: nothing is mounted there
  std::uint64_t shm_free = 0;                 // of a live tree
  std::optional<std::uint64_t> memlock = {};  // nullopt: no limit
  std::optional<std::uint64_t> nofile = {};
  std::optional<std::uint64_t> nofile_hard = {};
  bool limits_known = false;
  std::string transparent_pages = {};  // "always", "madvise", "never"; empty: not known
  std::string shared_pages = {};       // the same for shared memory
  std::int64_t reserved_pages = 0;     // of 2 MiB, for hugetlbfs
  bool rdma = false;                   // this machine has network cards that need locked memory
};

MemoryFacts read_memory(const Tree& tree);
Findings check_memory(const MemoryFacts& facts, const CgroupLimits& limits);

// The kernel, and what processes may do with each other.

struct ProcessFacts {
  std::string kernel = {};                        // "6.1.0-18-amd64"
  std::optional<std::int64_t> ptrace_scope = {};  // nullopt: no Yama
  bool seccomp = false;                           // system calls are filtered
  std::optional<std::int64_t> most_processes = {};
  // Mandatory access control.
  std::optional<bool> selinux_enforces = {};  // nullopt: no SELinux, or a container that hides it
  std::string label = {};                     // "system_u:system_r:container_t:s0", "docker-default (enforce)"
  bool denies_ptrace = false;                 // SELinux's boolean deny_ptrace
};

ProcessFacts read_processes(const Tree& tree);
Findings check_processes(const ProcessFacts& facts, const CgroupLimits& limits);

// Virtual machines and containers.

struct Virtualization {
  bool virtual_machine = false;
  std::string hypervisor = {};  // "VMware", "KVM", ...; empty: unknown
  std::string product = {};     // as the firmware says it
  int wsl = 0;                  // version of the Windows Subsystem for Linux; 0: none
  std::string container = {};   // "Docker", "Podman", "Kubernetes", ...; empty: none
  bool shared_pids = false;     // its processes see those of other containers
  bool one_rank_a_pod = false;  // of a job of several pods
};

Virtualization read_virtualization(const Tree& tree);
Findings check_virtualization(const Virtualization& facts);

// Network interfaces, their addresses, and which one TCP between hosts would take.

struct NetworkInterface {
  std::string name = {};
  std::string driver = {};  // empty: made by software
  std::string device = {};  // its PCI address; empty: none
  std::string kind = {};    // "ethernet", "infiniband", "loopback", "other"
  std::string mode = {};    // of IP over InfiniBand: "datagram", "connected"
  bool up = false;          // and its cable is in
  bool inner = false;       // reaches containers and virtual machines of this host only
  bool default_route = false;
  std::optional<std::int64_t> mbit = {};  // per second; nullopt: it does not say
  std::int64_t mtu = 0;
  int numa_node = -1;
  std::vector<std::string> addresses = {};  // without those of the link only (169.254/16, fe80::/10)
};

std::vector<NetworkInterface> read_interfaces(const Tree& tree);
// The interface that TCP between hosts would use: the default route's, else the fastest; nullptr: no interface leaves
// this host.
const NetworkInterface* chosen_interface(const std::vector<NetworkInterface>& interfaces);
Findings check_network(const std::vector<NetworkInterface>& interfaces);

// InfiniBand and RoCE cards, and the network interface of each port.

struct RdmaPort {
  std::string device = {};  // "mlx5_0"
  int number = 1;
  std::string state = {};       // "ACTIVE", "DOWN", ...
  std::string physical = {};    // "LinkUp", "Polling", "Disabled", ...
  std::string rate = {};        // "100 Gb/sec (4X EDR)"
  std::string link_layer = {};  // "InfiniBand" or "Ethernet"
  std::string interface = {};   // empty: none
  bool interface_up = false;
  std::string pci = {};
  std::string board = {};
  std::string firmware = {};
  int numa_node = -1;

  bool active() const { return state == "ACTIVE"; }
};

// Where the kernel modules of the cards come from.
struct RdmaDriver {
  std::vector<std::string> inbox = {};  // modules of the kernel itself
  std::vector<std::string> added = {};  // those that were built beside it: MLNX_OFED, DOCA
  std::string version = {};             // of mlx5_core, where it has one of its own
  std::string package = {};             // "MLNX_OFED_LINUX-23.10-1.1.9.0"; empty: not installed
};

struct RdmaFacts {
  std::vector<RdmaPort> ports = {};
  RdmaDriver driver = {};
  std::vector<std::string> verbs = {};  // uverbs devices that this process may open
  bool verbs_seen = false;              // there are any
  bool peer_memory = false;             // GPU memory can be registered (nvidia_peermem)
  bool nvidia_gpus = false;
  bool nvidia_open = false;  // the GPUs' driver is the open one, which knows DMA-BUF
};

RdmaFacts read_rdma(const Tree& tree);
Findings check_rdma(const RdmaFacts& facts);
// Where TCP between hosts would go over InfiniBand; nothing where it would not.
Findings check_ip_over_infiniband(const std::vector<NetworkInterface>& interfaces, const RdmaFacts& facts);

// How GPUs and network cards are connected by PCI Express, and the obstacles to direct transfers between them.

// A range of addresses by which the processor and other cards reach a card's memory (base address register).
struct PciRange {
  int number = 0;  // of the base address register, from 0 on
  std::uint64_t bytes = 0;
  bool assigned = false;  // the firmware or the kernel found room for it
};

struct PciFunction {
  std::string address = {};  // "0000:3b:00.0"
  int vendor = 0;
  int device_class = 0;                // as /sys writes it: 0x030200
  std::vector<std::string> path = {};  // from the root complex to this function: "pci0000:3a", "0000:3a:00.0", ...
  int numa_node = -1;
  std::optional<PciConfig> config = {};
  std::string config_error = {};  // why there is none
  std::vector<PciRange> ranges = {};
  bool ranges_known = false;  // the kernel's lines about all six could be read
};

struct PcieFacts {
  std::vector<PciFunction> gpus = {};
  std::vector<PciFunction> cards = {};    // RDMA and fast network cards
  std::vector<PciFunction> bridges = {};  // on the way to one of them
  bool iommu = false;
  std::string iommu_type = {};  // of the group of the first GPU or card: "DMA", "identity", ...
  bool virtual_machine = false;
  std::string hypervisor = {};
  bool efi = false;  // the machine was booted by EFI; else by a BIOS
};

PcieFacts read_pcie(const Tree& tree, const Virtualization& machine);
Findings check_pcie(const PcieFacts& facts);

}  // namespace xoe::doctor

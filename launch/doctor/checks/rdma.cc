#include "launch/doctor/checks/host.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/text.h"

namespace xoe::doctor {
namespace {

constexpr std::string_view kCards = "/sys/class/infiniband/";

// "ACTIVE" of "4: ACTIVE".
std::string after_colon(const std::string& text) {
  const auto at = text.find(": ");
  return at == std::string::npos ? text : text.substr(at + 2);
}

// A RoCE port names its interfaces at its GIDs. An InfiniBand port has an IP-over-InfiniBand interface at the same PCI
// function, whose dev_port counts from 0.
std::string interface_of(const Tree& tree, const std::string& device, int port) {
  const std::string gids = fmt::format("{}{}/ports/{}/gid_attrs/ndevs", kCards, device, port);
  for (const std::string& index : tree.names(gids))
    if (std::string name = tree.line(gids + "/" + index); !name.empty()) return name;
  const std::string folder = fmt::format("{}{}/device/net", kCards, device);
  const auto names = tree.names(folder);
  for (const std::string& name : names)
    if (tree.number(folder + "/" + name + "/dev_port") == port - 1) return name;
  return names.size() == 1 && port == 1 ? names.front() : "";
}

RdmaPort read_port(const Tree& tree, const std::string& device, int number) {
  const std::string card = std::string(kCards) + device + "/";
  const std::string folder = fmt::format("{}ports/{}/", card, number);
  RdmaPort port{.device = device,
                .number = number,
                .state = after_colon(tree.line(folder + "state")),
                .physical = after_colon(tree.line(folder + "phys_state")),
                .rate = tree.line(folder + "rate"),
                .link_layer = tree.line(folder + "link_layer"),
                .interface = interface_of(tree, device, number)};
  port.interface_up = tree.line("/sys/class/net/" + port.interface + "/operstate") == "up";
  port.pci = tree.target(card + "device").value_or("");
  port.board = tree.line(card + "hca_type");
  port.firmware = tree.line(card + "fw_ver");
  port.numa_node = static_cast<int>(tree.number(card + "device/numa_node").value_or(-1));
  return port;
}

// "MLNX_OFED_LINUX-23.10-1.1.9.0" of the script that prints it.
std::string installed_package(const Tree& tree) {
  const std::string script = tree.text("/usr/bin/ofed_info").value_or("");
  for (const std::string_view name : {"MLNX_OFED_LINUX-", "OFED-internal-", "DOCA-"}) {
    const auto at = script.find(name);
    if (at == std::string::npos) continue;
    const auto end = script.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", at);
    return script.substr(at, std::min<std::size_t>(end == std::string::npos ? end : end - at, 64));
  }
  return {};
}

RdmaDriver read_driver(const Tree& tree) {
  RdmaDriver driver{.package = installed_package(tree)};
  for (const std::string_view name : {"mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "rdma_cm"}) {
    const std::string folder = fmt::format("/sys/module/{}", name);
    if (!tree.has(folder + "/taint")) continue;  // it is not loaded, or part of the kernel's own image
    const bool outside = tree.line(folder + "/taint").find('O') != std::string::npos;
    (outside ? driver.added : driver.inbox).emplace_back(name);
  }
  driver.version = tree.line("/sys/module/mlx5_core/version");
  return driver;
}

Json json_of(const RdmaPort& port) {
  return {{"device", port.device},
          {"port", port.number},
          {"state", port.state},
          {"physical", port.physical},
          {"rate", port.rate},
          {"link_layer", port.link_layer},
          {"interface", port.interface},
          {"interface_up", port.interface_up},
          {"pci", port.pci},
          {"board", port.board},
          {"firmware", port.firmware},
          {"numa_node", port.numa_node}};
}

Finding check_port(const RdmaPort& port) {
  // The words of ibdev2netdev.
  const std::string line =
      fmt::format("{} port {} ==> {} ({})", port.device, port.number,
                  port.interface.empty() ? "no interface" : port.interface, port.interface_up ? "Up" : "Down");
  Finding finding{.id = fmt::format("rdma.{}.{}", port.device, port.number),
                  .what = fmt::format("{}: {}, {}, {}", line, port.link_layer, port.state, port.rate),
                  .why = "MPI (UCX) and NCCL use ports that are ACTIVE; others are left out without a word",
                  .details = json_of(port)};
  finding.details["ibdev2netdev"] = line;
  if (port.active()) {
    if (port.interface.empty()) {
      finding.advise(Severity::kNote, port.link_layer == "InfiniBand"
                                          ? "modprobe ib_ipoib gives it an interface for TCP"
                                          : "see ip link for the interface of its PCI function " + port.pci);
    }
    return finding;
  }
  finding.severity = Severity::kWarning;
  if (port.physical == "Disabled")
    finding.fix = fmt::format("its link is disabled: ip link set {} up, or ibportstate enable",
                              port.interface.empty() ? "INTERFACE" : port.interface);
  else if (port.physical == "Polling")
    finding.fix = "no partner answers: is the cable in, at both ends, and the switch on?";
  else if (port.state == "INIT" && port.link_layer == "InfiniBand")
    finding.fix = "the link is there but no subnet manager: start opensm on one host, or turn the switch's on";
  else if (!port.interface.empty())
    finding.fix = fmt::format("ip link set {} up; then see ethtool {}", port.interface, port.interface);
  else
    finding.fix = "see ibstat " + port.device + " for the cause";
  return finding;
}

Finding check_access(const RdmaFacts& facts) {
  Finding finding{.id = "rdma.access",
                  .what = fmt::format("may be used: {}", fmt::join(facts.verbs, " ")),
                  .why = "programs talk to the cards through /dev/infiniband/uverbs*"};
  finding.details = {{"devices", facts.verbs}};
  if (!facts.verbs.empty()) return finding;
  finding.severity = Severity::kWarning;
  if (facts.verbs_seen) {
    finding.what = "no /dev/infiniband/uverbs* may be opened by this user";
    finding.fix = "join the group that owns them (often rdma), or have udev give them mode 0666";
  } else {
    finding.what = "cards are there, but no /dev/infiniband/uverbs*";
    finding.fix = "modprobe ib_uverbs; in a container: docker run --device=/dev/infiniband --cap-add=IPC_LOCK";
  }
  return finding;
}

Finding check_driver(const RdmaDriver& driver) {
  Finding finding{.id = "rdma.driver",
                  .what = "the kernel's own drivers (inbox)",
                  .why =
                      "modules of two origins do not fit each other: cards vanish, or GPU memory cannot be registered, "
                      "often after an update of the kernel"};
  finding.details = {
      {"inbox", driver.inbox}, {"added", driver.added}, {"version", driver.version}, {"package", driver.package}};
  const std::string package = driver.package.empty() ? "drivers from outside of the kernel" : driver.package;
  // A restart of the drivers alone would take the cards from jobs that run.
  const std::string rebuild =
      "on the host, with no job running: build its modules for this kernel (dkms autoinstall, or mlnxofedinstall "
      "--add-kernel-support), then reboot";
  if (driver.inbox.empty() && driver.added.empty()) {
    finding.report(Severity::kSkipped, "the kernel does not say where its modules come from");
  } else if (!driver.inbox.empty() && !driver.added.empty()) {
    finding.report(Severity::kWarning,
                   fmt::format("{} come with the kernel, but {} from {}", fmt::join(driver.inbox, ", "),
                               fmt::join(driver.added, ", "), package),
                   rebuild);
  } else if (driver.added.empty() && !driver.package.empty()) {
    finding.report(
        Severity::kNote, fmt::format("{} is installed, but the kernel runs its own drivers", package),
        "nothing, in a container or where only its programs were installed (--user-space-only); else " + rebuild);
  } else if (!driver.added.empty()) {
    finding.what = fmt::format("{}{}", package, driver.version.empty() ? "" : ", mlx5_core " + driver.version);
  }
  return finding;
}

Finding check_peer_memory(const RdmaFacts& facts) {
  Finding finding{.id = "rdma.gpu_memory",
                  .what = "nvidia_peermem is loaded: cards read GPU memory themselves",
                  .why =
                      "without it, and without DMA-BUF (driver with open kernel modules), bytes go through the "
                      "processor's memory"};
  finding.details = {{"nvidia_peermem", facts.peer_memory}, {"open_kernel_modules", facts.nvidia_open}};
  if (facts.peer_memory) return finding;
  finding.report(Severity::kNote, "nvidia_peermem is not loaded",
                 "as root: modprobe nvidia_peermem; not needed where NCCL uses DMA-BUF (NCCL_DEBUG=INFO tells)");
  if (facts.nvidia_open)
    finding.fix =
        "nothing, where NCCL uses DMA-BUF, which this driver (open kernel modules) has: NCCL_DEBUG=INFO tells";
  else if (facts.driver.added.empty() && !facts.driver.inbox.empty())
    finding.fix =
        "most kernels' own drivers do not take nvidia_peermem: install NVIDIA's driver with open kernel modules "
        "(DMA-BUF, Linux 5.12), or MLNX_OFED and then, as root, modprobe nvidia_peermem";
  return finding;
}

}  // namespace

RdmaFacts read_rdma(const Tree& tree) {
  RdmaFacts facts;
  for (const std::string& device : tree.names(kCards))
    for (const std::string& port : tree.names(std::string(kCards) + device + "/ports"))
      if (const auto number = parse_integer(port); number && *number > 0 && *number < 256)
        facts.ports.push_back(read_port(tree, device, static_cast<int>(*number)));
  for (const std::string& name : tree.names("/dev/infiniband")) {
    if (!name.starts_with("uverbs")) continue;
    facts.verbs_seen = true;
    if (::access(tree.path("/dev/infiniband/" + name).c_str(), R_OK | W_OK) == 0) facts.verbs.push_back(name);
  }
  facts.peer_memory = tree.has("/sys/module/nvidia_peermem") || tree.has("/sys/module/nv_peer_mem");
  const std::string nvidia = tree.text("/proc/driver/nvidia/version").value_or("");
  facts.nvidia_gpus = !nvidia.empty();
  facts.nvidia_open = nvidia.find("Open Kernel Module") != std::string::npos;
  facts.driver = read_driver(tree);
  return facts;
}

Findings check_rdma(const RdmaFacts& facts) {
  if (facts.ports.empty())
    return {{.id = "rdma.devices",
             .what = "no InfiniBand or RoCE card",
             .why = "without one, hosts talk over TCP",
             .details = {{"count", 0}}}};
  const auto active = std::ranges::count_if(facts.ports, &RdmaPort::active);
  Findings findings = {{.id = "rdma.devices",
                        .what = fmt::format("{}, {} active", counted(std::ssize(facts.ports), "port"), active),
                        .why = "MPI (UCX) and NCCL use them between hosts",
                        .details = {{"count", facts.ports.size()}, {"active", active}}}};
  for (const RdmaPort& port : facts.ports) findings.push_back(check_port(port));
  findings.push_back(check_driver(facts.driver));
  findings.push_back(check_access(facts));
  if (facts.nvidia_gpus) findings.push_back(check_peer_memory(facts));
  return findings;
}

}  // namespace xoe::doctor

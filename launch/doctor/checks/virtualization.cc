#include "launch/doctor/checks/host.h"

#include <fmt/format.h>

#include "core/base/text.h"

namespace xoe::doctor {
namespace {

struct Mark {
  std::string_view part;
  std::string_view name;
};

// In the firmware's names of vendor, product and board.
constexpr Mark kHypervisors[] = {{"VMware", "VMware"},
                                 {"QEMU", "KVM"},
                                 {"KVM", "KVM"},
                                 {"Xen", "Xen"},
                                 {"innotek", "VirtualBox"},
                                 {"VirtualBox", "VirtualBox"},
                                 {"Virtual Machine", "Hyper-V"},
                                 {"Amazon EC2", "Amazon EC2"},
                                 {"Google Compute", "Google Compute Engine"},
                                 {"OpenStack", "OpenStack"},
                                 {"Bochs", "Bochs"}};
// In the names of control groups and in the variable `container` of the first process.
constexpr Mark kContainers[] = {{"kubepods", "Kubernetes"},
                                {"docker", "Docker"},
                                {"libpod", "Podman"},
                                {"podman", "Podman"},
                                {"lxc", "LXC"},
                                {"systemd-nspawn", "systemd-nspawn"},
                                {"containerd", "containerd"},
                                {"apptainer", "Apptainer"},
                                {"singularity", "Apptainer"},
                                {"garden", "Garden"}};

template <std::size_t size>
std::string found_in(std::string_view text, const Mark (&marks)[size]) {
  for (const Mark& mark : marks)
    if (text.find(mark.part) != std::string_view::npos) return std::string(mark.name);
  return {};
}

std::string container_of(const Tree& tree) {
  const std::string groups = tree.text("/proc/1/cgroup").value_or("") + tree.text("/proc/self/cgroup").value_or("");
  std::string runtime = found_in(groups, kContainers);
  // With version 2 of control groups a container sees no path; a Service's variables are in every pod.
  const std::string variables = '\0' + tree.text("/proc/self/environ").value_or("");
  if (runtime == "Kubernetes" || tree.has("/var/run/secrets/kubernetes.io") || tree.has("/run/secrets/kubernetes.io") ||
      variables.find('\0' + std::string("KUBERNETES_SERVICE_HOST=")) != std::string::npos)
    return "Kubernetes";
  if (tree.has("/run/.containerenv")) return "Podman";
  if (tree.has("/.dockerenv")) return "Docker";
  if (!runtime.empty()) return runtime;
  const std::string environment = tree.text("/proc/1/environ").value_or("");
  const std::string key = "container=";
  const auto at = environment.starts_with(key) ? 0 : environment.find('\0' + key);
  if (at == std::string::npos) return {};
  const std::string value = environment.substr(environment.find('=', at) + 1);
  const std::string kind = value.substr(0, value.find('\0'));
  const std::string name = found_in(kind, kContainers);
  return name.empty() ? kind : name;
}

// 1: Windows translates the calls of a Linux program; 2: Linux runs in a virtual machine. Its kernel is
// "5.15.153.1-microsoft-standard-WSL2" by default; one of one's own keeps the interpreter of Windows' programs.
int wsl_version(const Tree& tree) {
  const std::string release = tree.line("/proc/sys/kernel/osrelease");
  if (release.find("WSL2") != std::string::npos || release.find("microsoft-standard") != std::string::npos) return 2;
  if (release.find("Microsoft") != std::string::npos) return 1;
  // systemd registers it under the second name.
  const std::string interpreters = "/proc/sys/fs/binfmt_misc/";
  return tree.has(interpreters + "WSLInterop") || tree.has(interpreters + "WSLInterop-late") ? 2 : 0;
}

Finding check_windows(const Virtualization& facts) {
  Finding finding{.id = "virtual.wsl",
                  .what = fmt::format("Linux under Windows (WSL {})", facts.wsl),
                  .why =
                      "Windows sets the limits of memory and processors, hides the network from other hosts, and its "
                      "driver tells neither which processes use a GPU nor how GPUs are connected",
                  .details = {{"version", facts.wsl}}};
  if (facts.wsl == 1)
    finding.advise(
        Severity::kProblem,
        "in PowerShell: wsl --set-version NAME 2; WSL 1 has no pidfds, no shared memory by memfd and no GPUs");
  else
    finding.advise(
        Severity::kNote,
        "training on this machine works; in %UserProfile%\\.wslconfig below [wsl2]: memory= and processors= "
        "raise the limits, networkingMode=mirrored lets other hosts in; install no Linux driver for the GPU, "
        "Windows' own is /usr/lib/wsl/lib");
  return finding;
}

Finding check_machine(const Virtualization& facts) {
  Finding finding{.id = "virtual.machine",
                  .what = "no hypervisor: the machine itself",
                  .why =
                      "a hypervisor may hide which processors, memory and cards belong together, shares the network "
                      "card, and may keep GPUs from reading each other's memory"};
  finding.details = {{"virtual", facts.virtual_machine}, {"hypervisor", facts.hypervisor}, {"product", facts.product}};
  if (!facts.virtual_machine) return finding;
  finding.report(Severity::kNote,
                 fmt::format("a virtual machine{}{}", facts.hypervisor.empty() ? "" : " of " + facts.hypervisor,
                             facts.product.empty() ? "" : " (" + facts.product + ")"));
  if (facts.hypervisor == "VMware")
    finding.fix =
        "for GPUs and network cards that are passed through: reserve all memory, place the machine on the "
        "cards' NUMA node, and for transfers between cards set pciPassthru.allowP2P = TRUE and "
        "pciPassthru.RelaxACSforP2P = TRUE";
  else if (facts.wsl == 0)
    finding.fix = "for GPUs that are passed through: pin processors and memory to the cards' NUMA node on the host";
  return finding;
}

Finding check_container(const Virtualization& facts) {
  Finding finding{.id = "virtual.container",
                  .what = "no container",
                  .why =
                      "containers come with 64 MiB of /dev/shm and limits of their own; ranks in different containers "
                      "share memory only in one PID name space"};
  finding.details = {{"container", facts.container}};
  if (facts.container.empty()) return finding;
  finding.report(Severity::kNote, fmt::format("a container ({})", facts.container));
  if (facts.shared_pids) return finding;
  if (facts.container != "Kubernetes")
    finding.fix = "all ranks of a host in one container, or in several with --pid=host; between hosts --network=host";
  else if (facts.one_rank_a_pod)
    finding.fix = "where a node has several pods of the job: one pod a node, with all its ranks (numProcPerNode)";
  return finding;
}

}  // namespace

Virtualization read_virtualization(const Tree& tree) {
  Virtualization facts;
  const std::string dmi = "/sys/class/dmi/id/";
  const std::string vendor = tree.line(dmi + "sys_vendor");
  facts.product = tree.line(dmi + "product_name");
  facts.hypervisor = found_in(vendor + "\n" + facts.product + "\n" + tree.line(dmi + "board_vendor"), kHypervisors);
  if (const std::string kind = tree.line("/sys/hypervisor/type"); facts.hypervisor.empty() && !kind.empty())
    facts.hypervisor = kind == "xen" ? "Xen" : kind;
  // Clouds write their name into the firmware of bare machines too, so the processor decides where it can tell.
  const auto words = words_of(field(tree.text("/proc/cpuinfo").value_or(""), "flags"));
  const bool flagged = std::find(words.begin(), words.end(), "hypervisor") != words.end();
  facts.virtual_machine = flagged || (words.empty() && !facts.hypervisor.empty());
  if (!facts.virtual_machine) facts.hypervisor.clear();
  facts.wsl = wsl_version(tree);
  facts.container = container_of(tree);
  // The first process of a pod with shareProcessNamespace, and the second one of the machine.
  facts.shared_pids = tree.line("/proc/1/comm") == "pause" || tree.line("/proc/2/comm") == "kthreadd";
  const Env env = environment_of(tree);
  const std::string pods = env.text("PET_NNODES").value_or("1");
  facts.one_rank_a_pod = env.text("PET_NPROC_PER_NODE") == "1" && pods.substr(0, pods.find(':')) != "1";
  return facts;
}

Findings check_virtualization(const Virtualization& facts) {
  Findings findings = {check_machine(facts), check_container(facts)};
  if (facts.wsl > 0) findings.push_back(check_windows(facts));
  return findings;
}

}  // namespace xoe::doctor

#include "launch/doctor/checks/container.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/text.h"

namespace xoe::doctor {
namespace {

constexpr std::string_view kKubernetes = "Kubernetes";

std::string processors(double count) { return fmt::format("{:.4g} processor{}", count, count == 1 ? "" : "s"); }

bool is_pod(const ContainerFacts& facts) { return facts.runtime == kKubernetes; }

// Ranks and their threads against the processors that the container may use.
Finding check_threads(const ContainerFacts& facts, const CpuFacts& cpu, const CgroupLimits& limits) {
  Finding finding{.id = "container.cpu",
                  .what = "no CPU limit",
                  .why =
                      "threads beyond the limit use up the time of all: the container then stands still until the next "
                      "period, and every rank of the job waits for it"};
  const std::int64_t ranks = facts.ranks.value_or(1);
  finding.details = {{"limit", json_or_null(limits.cpus)},
                     {"hardware_threads", cpu.usable},
                     {"ranks", json_or_null(facts.ranks)},
                     {"omp_num_threads", json_or_null(facts.threads)}};
  if (!limits.cpus) return finding;
  const double limit = *limits.cpus;
  // Without OMP_NUM_THREADS, `xoe run` divides the limit among the ranks.
  const std::int64_t threads = ranks * std::max<std::int64_t>(facts.threads.value_or(1), 1);
  if (static_cast<double>(threads) <= std::ceil(limit)) {
    finding.what =
        fmt::format("{}{} within the limit of {}", counted(ranks, "rank"),
                    facts.threads ? fmt::format(" with {}", counted(*facts.threads, "thread")) : "", processors(limit));
    return finding;
  }
  finding.report(Severity::kWarning,
                 facts.threads ? fmt::format("{} with OMP_NUM_THREADS={}: {} threads share {}", counted(ranks, "rank"),
                                             *facts.threads, threads, processors(limit))
                               : fmt::format("{} share {}", counted(ranks, "rank"), processors(limit)),
                 fmt::format("raise the limit to {} (docker run --cpus={}), or start fewer ranks{}", threads, threads,
                             facts.threads ? "; leave OMP_NUM_THREADS unset, and xoe run divides the limit" : ""));
  finding.details["wanted"] = threads;
  finding.manifest = manifest_lines(fmt::format(R"(resources: {{limits: {{cpu: "{}"}}}})", threads), "");
  return finding;
}

std::string shm_lines(std::uint64_t size) {
  return manifest_lines(
      "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
      fmt::format("volumes: [{{name: shm, emptyDir: {{medium: Memory, sizeLimit: {}Mi}}}}]", size >> 20));
}

Finding check_memory_limit(const ContainerFacts& facts, const MemoryFacts& memory, const CgroupLimits& limits) {
  constexpr std::uint64_t kRank = std::uint64_t{1} << 29;  // a Python with PyTorch, before the model
  constexpr std::uint64_t kRoom = std::uint64_t{1} << 32;  // of a rank with a model
  Finding finding{
      .id = "container.memory",
      .what = "no memory limit",
      .why =
          "at the limit the kernel kills a process of the container, and with it the job; /dev/shm and Xoe's "
          "shared gradients count too"};
  const auto ranks = static_cast<std::uint64_t>(std::max<std::int64_t>(facts.ranks.value_or(1), 1));
  finding.details = {{"limit", json_or_null(limits.memory)}, {"ranks", json_or_null(facts.ranks)}};
  if (!limits.memory) return finding;
  finding.what = fmt::format("a limit of {}, {} for each of {}", human_bytes(*limits.memory),
                             human_bytes(*limits.memory / ranks), counted(static_cast<std::int64_t>(ranks), "rank"));
  if (*limits.memory / ranks < kRank) {
    finding.advise(Severity::kWarning,
                   fmt::format("a Python with PyTorch takes up to {} before it has a model: docker run --memory, "
                               "resources.limits.memory in Kubernetes",
                               human_bytes(kRank)));
    finding.manifest = manifest_lines(memory_limit_line(ranks * kRoom), "");
  } else if (memory.shm && *memory.shm > *limits.memory) {
    finding.advise(Severity::kNote,
                   fmt::format("/dev/shm holds {}, more than the limit, towards which it counts: raise the limit, or "
                               "give /dev/shm a smaller size",
                               human_bytes(*memory.shm)));
    finding.manifest = shm_lines(*limits.memory / 2);
  }
  return finding;
}

bool has_cluster_domain(const ContainerFacts& facts) {
  return std::any_of(facts.search.begin(), facts.search.end(), [](const std::string& domain) {
    return domain.starts_with("svc.") || domain.find(".svc.") != std::string::npos;
  });
}

Finding check_dns(const ContainerFacts& facts) {
  constexpr std::string_view kDockerDns = "127.0.0.11";
  const std::string policy = facts.host_network ? "dnsPolicy: ClusterFirstWithHostNet" : "dnsPolicy: ClusterFirst";
  Finding finding{.id = "container.dns",
                  .what = fmt::format("names are asked of {}, with the domains {}", fmt::join(facts.name_servers, ", "),
                                      facts.search.empty() ? "none" : fmt::format("{}", fmt::join(facts.search, " "))),
                  .why = "containers and pods find each other by name; addresses change when one is started again"};
  finding.details = {{"name_servers", facts.name_servers}, {"search", facts.search}};
  if (facts.name_servers.empty()) {
    finding.report(
        Severity::kWarning, "there is no name server (/etc/resolv.conf): no other container has a name here",
        fmt::format("in Kubernetes {}; docker run --network with a network of `docker network create`", policy));
    finding.manifest = manifest_lines("", policy);
  } else if (is_pod(facts) && !has_cluster_domain(facts)) {
    finding.report(Severity::kWarning,
                   fmt::format("this pod asks {} and no cluster DNS: names of pods and Services are unknown",
                               fmt::join(facts.name_servers, ", ")),
                   policy + (facts.host_network ? ", since the pod has the node's network" : ""));
    finding.manifest = manifest_lines("", policy);
  } else if (facts.runtime == "Docker" && facts.name_servers.front() != kDockerDns) {
    finding.advise(Severity::kNote,
                   "Docker's default bridge gives containers no names: docker network create xoe, and docker run "
                   "--network=xoe --name=NAME");
  }
  return finding;
}

// The name of the host that all others look for.
Finding check_leader(const ContainerFacts& facts) {
  const LeaderFacts& leader = facts.leader;
  Finding finding{.id = "container.leader",
                  .what = fmt::format("host {} of rank 0 ({}) is {}", leader.host, leader.variable, leader.address),
                  .why = "every other pod connects to the one of rank 0 to join the job"};
  finding.details = {{"variable", leader.variable},
                     {"host", leader.host},
                     {"address", leader.address},
                     {"error", leader.error},
                     {"own_name", facts.full_name}};
  const auto add_subdomain = [&finding, &facts] {
    if (!facts.full_name.empty()) return;
    finding.manifest =
        manifest_lines("", "subdomain: SERVICE  # Service: clusterIP: None, publishNotReadyAddresses: true");
  };
  if (leader.host.empty() && facts.full_name.empty()) {
    finding.report(Severity::kWarning,
                   "this pod of an Indexed Job has no name under a headless Service: no other pod finds it",
                   "a Service with clusterIP: None and publishNotReadyAddresses: true, and its name as subdomain of "
                   "the pods; or xoe run --rendezvous HOST");
    add_subdomain();
  } else if (leader.host.empty()) {
    finding.report(Severity::kWarning,
                   fmt::format("{} ends in no index, so that pod 0 has no name that follows from it",
                               facts.full_name.substr(0, facts.full_name.find('.'))),
                   "leave hostname out of the pods' template: Kubernetes ends their names in their index; or xoe run "
                   "--rendezvous HOST");
  } else if (!facts.tried) {
    finding.report(Severity::kSkipped, fmt::format("host {} of rank 0 ({}) not looked up: this is a recorded tree",
                                                   leader.host, leader.variable));
  } else if (leader.address.empty()) {
    finding.report(Severity::kWarning,
                   fmt::format("host {} of rank 0 ({}) has no address: {}", leader.host, leader.variable, leader.error),
                   "is that pod there? xoe run --rendezvous waits for it. Else: does its headless Service select it, "
                   "with publishNotReadyAddresses: true, and is it in this namespace?");
    add_subdomain();
  }
  return finding;
}

// Tunnels of well-known networks leave this much of Ethernet's 1500 bytes.
std::string tunnel_of(std::int64_t mtu) {
  switch (mtu) {
    case 1480: return "as Calico over IP-in-IP gives it";
    case 1450: return "as VXLAN (Flannel, Calico) and Geneve give it";
    case 1442:
    case 1400: return "as OVN-Kubernetes gives it";
    case 1440:
    case 1420: return "as WireGuard (Calico, Cilium) gives it";
    case 8951:
    case 8950: return "as VXLAN over jumbo frames gives it";
    default: return {};
  }
}

Finding check_mtu(const ContainerFacts& facts) {
  const std::string tunnel = tunnel_of(facts.mtu);
  Finding finding{.id = "container.mtu",
                  .what = fmt::format("{} takes packets of {} bytes{}", facts.interface, facts.mtu,
                                      tunnel.empty() ? "" : ", " + tunnel),
                  .why =
                      "where the way takes less than the interface and no router says so, connections open, small "
                      "messages arrive, and tensors stall"};
  finding.details = {{"interface", facts.interface}, {"mtu", facts.mtu}, {"path", nullptr}, {"path_mtu", nullptr}};
  if (!facts.path) return finding;
  static constexpr const char* kStates[] = {"unknown", "reached", "smaller", "lost"};
  const PathMtu& path = *facts.path;
  finding.details["path"] = kStates[static_cast<int>(path.state)];
  finding.details["path_mtu"] = path.mtu > 0 ? Json(path.mtu) : Json();
  const std::string remedy =
      "give the network of the pods an MTU that its tunnel takes: the mtu of the CNI's configuration (Calico: "
      "veth_mtu, "
      "Flannel and Cilium: that of the nodes' interface less 50); docker network create -o "
      "com.docker.network.driver.mtu=1400; then start the pods again";
  switch (path.state) {
    case PathMtu::State::kUnknown:
      finding.what += fmt::format("; {} does not answer, so the way to it is not known", facts.leader.host);
      break;
    case PathMtu::State::kReached: finding.what += fmt::format("; they reach {}", facts.leader.host); break;
    case PathMtu::State::kSmaller:
      finding.advise(Severity::kNote, "nothing is lost, since a router says so; " + remedy);
      finding.what += fmt::format("; the way to {} takes {}", facts.leader.host, path.mtu);
      break;
    case PathMtu::State::kLost:
      finding.report(Severity::kProblem,
                     fmt::format("packets of {} bytes, the MTU of {}, are lost on the way to {}; small ones arrive",
                                 path.mtu, facts.interface, facts.leader.host),
                     remedy);
  }
  return finding;
}

Finding check_gpu_devices(const ContainerFacts& facts) {
  const auto has = [&facts](std::string_view name) {
    return std::find(facts.gpu_devices.begin(), facts.gpu_devices.end(), name) != facts.gpu_devices.end();
  };
  const auto gpus = std::count_if(facts.gpu_devices.begin(), facts.gpu_devices.end(), [](const std::string& name) {
    return name.size() > 6 && name.find_first_not_of("0123456789", 6) == std::string::npos;
  });
  Finding finding{.id = "container.gpu",
                  .what = gpus == 0 ? "no GPU is given to this container, and none was asked for"
                                    : fmt::format("{} in /dev", counted(gpus, "NVIDIA GPU")),
                  .why = "a container sees the GPUs that its runtime puts into /dev"};
  finding.details = {{"wanted", facts.gpus_wanted}, {"devices", facts.gpu_devices}, {"refused", facts.device_refused}};
  const std::string remedy =
      "docker run --gpus all, with nvidia-container-toolkit on the host; in Kubernetes limits of nvidia.com/gpu, or a "
      "resource claim, with NVIDIA's device plugin on the nodes";
  const bool by_plugin =
      is_pod(facts) && (facts.gpus_wanted.starts_with("GPU-") || facts.gpus_wanted.starts_with("MIG-"));
  if (gpus == 0 && !facts.gpus_wanted.empty()) {
    // Images of CUDA say "all" on machines without a GPU, too; a list comes from a scheduler.
    finding.report(facts.gpus_wanted == "all" ? Severity::kNote : Severity::kProblem,
                   fmt::format("NVIDIA_VISIBLE_DEVICES={}, but there is no GPU in /dev", facts.gpus_wanted),
                   by_plugin ? "the device plugin gave this pod GPUs that its container runtime did not put in: "
                               "runtimeClassName: nvidia, or nvidia as the default runtime of the nodes"
                             : remedy);
    finding.manifest = by_plugin ? manifest_lines("", "runtimeClassName: nvidia") : manifest_lines(kOneGpu, "");
  } else if (gpus > 0 && !has("nvidia-uvm")) {
    finding.report(Severity::kWarning, "there are GPUs, but no /dev/nvidia-uvm, without which CUDA does not start",
                   "on the node, as root: nvidia-modprobe -u -c=0; then start the container again");
  } else if (!facts.device_refused.empty()) {
    finding.report(Severity::kProblem, fmt::format("/dev/nvidiactl cannot be opened: {}", facts.device_refused),
                   "devices that are only mounted are refused by the container's device rules: " + remedy);
    finding.manifest = manifest_lines(kOneGpu, "");
  }
  return finding;
}

Finding check_calls(const ContainerFacts& facts) {
  Finding finding{.id = "container.calls",
                  .what = "the system calls that Xoe uses are allowed",
                  .why =
                      "filters (seccomp) and Pod Security may refuse calls; Xoe needs no capability, no ptrace and no "
                      "privilege"};
  Json refused = Json::array();
  std::vector<std::string> needed, useful;
  for (const RefusedCall& call : facts.refused) {
    refused.push_back({{"call", call.name}, {"error", call.error}, {"needed", call.loss.empty()}});
    (call.loss.empty() ? needed : useful)
        .push_back(fmt::format("{}: {}{}", call.name, call.error, call.loss.empty() ? "" : ", so " + call.loss));
  }
  finding.details = {{"refused", std::move(refused)}};
  const std::string remedy =
      facts.filtered ? "the profile of a newer container runtime (seccompProfile: {type: RuntimeDefault}), which "
                       "allows them; docker run --security-opt seccomp=PROFILE"
                     : "no filter is set here: the kernel of the machine, or the sandbox in its place, lacks them, and "
                       "a newer one has them";
  if (!facts.tried) {
    finding.report(Severity::kSkipped, "no system call tried: this is a recorded tree");
  } else if (!needed.empty()) {
    finding.report(Severity::kProblem, fmt::format("refused: {}", fmt::join(needed, "; ")), remedy);
  } else if (!useful.empty()) {
    finding.report(Severity::kNote, fmt::format("refused: {}", fmt::join(useful, "; ")), remedy);
  }
  if (!facts.refused.empty() && facts.filtered) finding.manifest = manifest_lines("", kRuntimesSeccomp);
  return finding;
}

Finding check_files(const ContainerFacts& facts) {
  Finding finding{
      .id = "container.files",
      .what = facts.read_only_root ? "the root is read-only" : "the root may be written",
      .why =
          "Xoe writes no files of its own, but PyTorch fails without a temporary folder (TMPDIR), and keeps caches in "
          "HOME"};
  finding.details = {{"read_only_root", facts.read_only_root},
                     {"temporary", facts.temporary},
                     {"temporary_writable", facts.temporary_writable},
                     {"home", facts.home},
                     {"home_writable", facts.home_writable}};
  if (!facts.temporary_writable) {
    finding.report(Severity::kWarning,
                   fmt::format("{}{} cannot be written", facts.read_only_root ? "the root is read-only, and " : "",
                               facts.temporary),
                   fmt::format("docker run --tmpfs {0}; in Kubernetes an emptyDir at {0}", facts.temporary));
    finding.manifest = manifest_lines(fmt::format("volumeMounts: [{{name: tmp, mountPath: {}}}]", facts.temporary),
                                      "volumes: [{name: tmp, emptyDir: {}}]");
  } else if (!facts.home_writable) {
    finding.report(Severity::kNote,
                   facts.home.empty() ? "HOME is not set" : fmt::format("HOME ({}) cannot be written", facts.home),
                   fmt::format("if a program keeps caches (PyTorch's compiler, downloads): HOME={}", facts.temporary));
    finding.manifest = manifest_lines(fmt::format("env: [{{name: HOME, value: {}}}]", facts.temporary), "");
  }
  return finding;
}

Finding check_user(const ContainerFacts& facts) {
  Finding finding{.id = "container.user",
                  .what = facts.uid ? fmt::format("user {}", *facts.uid) : "the user is not known",
                  .why = "Xoe needs no root; Pod Security's level \"restricted\" refuses pods that run as root"};
  finding.details = {{"uid", json_or_null(facts.uid)}, {"named", facts.named_user}, {"variable", facts.user_variable}};
  if (!facts.uid) {
    finding.severity = Severity::kSkipped;
  } else if (*facts.uid == 0) {
    finding.advise(Severity::kNote, "docker run --user 65532; in Kubernetes runAsNonRoot: true");
    finding.manifest = manifest_lines("securityContext: {runAsNonRoot: true, runAsUser: 65532}", "");
    finding.what = "root";
  } else if (!facts.named_user && !facts.user_variable.empty()) {
    finding.what += fmt::format(", whose name {} gives", facts.user_variable);
  } else if (!facts.named_user) {
    finding.advise(Severity::kNote,
                   "programs that ask for their user's name fail (PyTorch's compiler does): set USER, and LOGNAME, or "
                   "take a user of the image");
    finding.manifest = manifest_lines("env: [{name: USER, value: xoe}, {name: LOGNAME, value: xoe}]", "");
    finding.what += " has no name in /etc/passwd";
  }
  return finding;
}

Finding check_secret(const ContainerFacts& facts) {
  Finding finding{.id = "container.secret",
                  .what = fmt::format("the job's secret is in {}", facts.secret),
                  .why = "hosts of a job prove with it that they belong to it",
                  .details = {{"file", facts.secret}, {"error", facts.secret_error}}};
  if (facts.secret_error.empty()) return finding;
  finding.report(Severity::kProblem, fmt::format("the job's secret, {}: {}", facts.secret, facts.secret_error),
                 facts.secret_read ? "give the job another one: openssl rand -hex 32 makes it"
                                   : "mount a Secret there that this user may read; openssl rand -hex 32 makes one");
  if (!facts.secret_read) {
    const std::filesystem::path file(facts.secret);
    finding.manifest = manifest_lines(
        fmt::format("volumeMounts: [{{name: secret, mountPath: {}, readOnly: true}}]", file.parent_path().string()),
        fmt::format("volumes: [{{name: secret, secret: {{secretName: SECRET, defaultMode: 0444}}}}]  # with the key {}",
                    file.filename().string()));
  }
  return finding;
}

}  // namespace

Findings check_container(const ContainerFacts& facts, const CpuFacts& cpu, const MemoryFacts& memory,
                         const CgroupLimits& limits) {
  Findings findings = {check_threads(facts, cpu, limits), check_memory_limit(facts, memory, limits), check_dns(facts)};
  if (facts.index || !facts.leader.variable.empty()) findings.push_back(check_leader(facts));
  if (!facts.interface.empty()) findings.push_back(check_mtu(facts));
  findings.push_back(check_gpu_devices(facts));
  findings.push_back(check_calls(facts));
  findings.push_back(check_files(facts));
  findings.push_back(check_user(facts));
  if (!facts.secret.empty()) findings.push_back(check_secret(facts));
  return findings;
}

}  // namespace xoe::doctor

// The readers and parsers, each alone.
#include <gmock/gmock.h>

#include <filesystem>

#include "core/testing/places.h"
#include "core/testing/scratch.h"
#include "launch/doctor/checks/container.h"
#include "launch/doctor/checks/host.h"
#include "launch/doctor/checks/installation.h"
#include "launch/doctor/facts/pci_config.h"
#include "launch/tests/doctor/findings.h"

namespace xoe::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void put(const Scratch& root, const std::string& path, std::string_view content) {
  std::filesystem::create_directories(std::filesystem::path(root.file(path)).parent_path());
  put_file(root.file(path), content);
}

std::vector<std::uint8_t> config(const std::string& name) {
  const std::string bytes = read_file(tree_path("config/" + name));
  return {bytes.begin(), bytes.end()};
}

TEST(TreeText, CpuLists) {
  EXPECT_THAT(parse_cpu_list("0-2,8, 10-11"), ElementsAre(0, 1, 2, 8, 10, 11));
  EXPECT_THAT(parse_cpu_list(""), ElementsAre());
  EXPECT_THAT(parse_cpu_list("3-1,x,-4,1-2-3,0-99999999,5"), ElementsAre(5));
}

TEST(TreeText, Fields) {
  EXPECT_EQ(field("Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n", "Cpus_allowed_list"), "0-1");
  EXPECT_EQ(field("Max open files   10 20 files", "Max open files"), "10 20 files");
  EXPECT_EQ(field("abc: 1", "ab"), "");
  EXPECT_EQ(field("", "ab"), "");
}

TEST(PciConfiguration, BridgeWithAccessControl) {
  const auto whole = parse_pci_config(config("bridge")).value();
  EXPECT_EQ(whole.vendor, 0x15AD);
  EXPECT_TRUE(whole.bridge);
  ASSERT_TRUE(whole.express);
  EXPECT_EQ(whole.express->port_type, 4);
  EXPECT_EQ(whole.express->width, 16);
  ASSERT_TRUE(whole.access_control);
  EXPECT_EQ(whole.access_control->offset, 0x140U);
  EXPECT_TRUE(whole.access_control->redirects_requests());
  ASSERT_TRUE(whole.address_translation);
  EXPECT_TRUE(whole.address_translation->enabled);
}

TEST(PciConfiguration, WhatUsersGetHasNoExtendedPart) {
  for (const char* const name : {"plain", "user"}) {
    const auto part = parse_pci_config(config(name)).value();
    EXPECT_EQ(part.vendor, 0x15AD);
    EXPECT_FALSE(part.extended);
    EXPECT_FALSE(part.access_control);
  }
  EXPECT_TRUE(parse_pci_config(config("plain")).value().express);
}

TEST(PciConfiguration, DamageIsNamed) {
  auto bytes = config("bridge");
  EXPECT_THAT(parse_pci_config(std::span(bytes).first(63)).error().message(), HasSubstr("63 bytes"));
  auto circle = bytes;
  circle[0x61] = 0x40;
  EXPECT_THAT(parse_pci_config(circle).error().message(), HasSubstr("circle at byte 64"));
  auto header = bytes;
  header[0x34] = 0x20;
  EXPECT_THAT(parse_pci_config(header).error().message(), HasSubstr("within the header"));
  // The second extended capability leads to the first.
  auto extended = bytes;
  extended[0x142] = 0x01;
  extended[0x143] = 0x10;
  EXPECT_THAT(parse_pci_config(extended).error().message(), HasSubstr("circle at byte 256"));
  EXPECT_FALSE(parse_pci_config(std::vector<std::uint8_t>(256, 0xFF)));
}

TEST(Network, OnlyLoopback) {
  const Scratch root;
  put(root, "sys/class/net/lo/type", "772\n");
  put(root, "sys/class/net/lo/operstate", "unknown\n");
  put(root, "proc/net/fib_trie", "  |-- 127.0.0.1\n     /32 host LOCAL\n");
  const Findings all = check_network(read_interfaces(Tree(root.path())));
  expect_states(all, {{"network.tcp", Severity::kWarning}});
  EXPECT_THAT(find(all, "network.tcp").what, HasSubstr("only loopback"));
}

TEST(Processes, OldKernelsHaveNoPidfds) {
  expect_states(check_processes({.kernel = "4.18.0-553.el8.x86_64"}, {}), {{"process.kernel", Severity::kProblem}});
  expect_states(check_processes({.kernel = "5.2.21"}, {}), {{"process.kernel", Severity::kProblem}});
  expect_states(check_processes({.kernel = "5.3.0"}, {}), {{"process.kernel", Severity::kOk}});
  expect_states(check_processes({.kernel = "nonsense"}, {}), {{"process.kernel", Severity::kSkipped}});
}

TEST(Cpu, WithoutWideVectorsAWarning) {
  const CpuFacts old{.model = "old",
                     .architecture = "x86_64",
                     .flags = {"sse2", "sse4_1"},
                     .online = 4,
                     .usable = 2,
                     .cores = 2,
                     .sockets = 1,
                     .nodes = {{0, "0-1", 1 << 30}, {1, "2-3", 0}}};
  expect_states(check_cpu(old, 8.0), {{"cpu.features", Severity::kWarning},
                                      {"cpu.cores", Severity::kNote},
                                      {"cpu.quota", Severity::kNote},
                                      {"cpu.numa", Severity::kWarning}});
}

TEST(Rdma, PortsThatAreDownSayWhy) {
  RdmaFacts facts{.ports = {{.device = "mlx5_0", .state = "INIT", .physical = "LinkUp", .link_layer = "InfiniBand"},
                            {.device = "mlx5_1", .state = "DOWN", .physical = "Disabled", .interface = "eth9"}}};
  const Findings all = check_rdma(facts);
  EXPECT_THAT(find(all, "rdma.mlx5_0.1").fix, HasSubstr("opensm"));
  EXPECT_THAT(find(all, "rdma.mlx5_1.1").fix, HasSubstr("ip link set eth9 up"));
  EXPECT_THAT(find(all, "rdma.access").fix, HasSubstr("ib_uverbs"));
}

TEST(Virtualization, KubernetesAndItsFriends) {
  const auto container = [](const std::string& file, const std::string& content) {
    const Scratch root;
    put(root, file, content);
    return read_virtualization(Tree(root.path())).container;
  };
  EXPECT_EQ(container("proc/1/cgroup", "0::/kubepods.slice/kubepods-pod1.slice"), "Kubernetes");
  EXPECT_EQ(container("run/.containerenv", ""), "Podman");
  EXPECT_EQ(container("proc/1/environ", std::string("A=1\0container=lxc\0", 18)), "LXC");
  EXPECT_EQ(container("proc/self/environ", std::string("A=1\0KUBERNETES_SERVICE_HOST=10.96.0.1\0", 37)), "Kubernetes");
  EXPECT_EQ(container("proc/1/cgroup", "0::/init.scope"), "");
}

Findings check(const ContainerFacts& facts) { return check_container(facts, {}, {}, {}); }

TEST(Container, TheLeaderIsReadFromTheJobsVariables) {
  const auto leader = [](std::string environment) {
    const Scratch root;
    std::replace(environment.begin(), environment.end(), ' ', '\0');
    put(root, "proc/self/environ", environment);
    put(root, "etc/hostname", "job-a-12\n");
    put(root, "etc/hosts", "10.0.0.3 job-a-12.svc.ns.svc.cluster.local job-a-12 # kubelet\n");
    return read_container(Tree(root.path()), "Kubernetes", {}, std::chrono::seconds(5)).leader;
  };
  EXPECT_EQ(leader("PET_MASTER_ADDR=a-0.b PET_NODE_RANK=1").host, "a-0.b");
  EXPECT_EQ(leader("JAX_COORDINATOR_ADDRESS=a-0.b:2345 JAX_PROCESS_ID=1").host, "a-0.b");
  EXPECT_EQ(leader("JAX_COORDINATOR_ADDRESS=[fd00::1]:2345").host, "fd00::1");
  EXPECT_EQ(leader("LWS_LEADER_ADDRESS=fd00::1").host, "fd00::1");
  EXPECT_EQ(leader("JOB_COMPLETION_INDEX=12").host, "job-a-0.svc.ns.svc.cluster.local");
  EXPECT_EQ(leader("A=1").variable, "");
}

TEST(Container, RanksAreThoseOfTheFirstProcessOrOfVariables) {
  const auto ranks = [](std::string environment, std::string command) {
    const Scratch root;
    std::replace(environment.begin(), environment.end(), ' ', '\0');
    std::replace(command.begin(), command.end(), ' ', '\0');
    put(root, "proc/self/environ", environment);
    put(root, "proc/1/cmdline", command);
    return read_container(Tree(root.path()), "Kubernetes", {}, std::chrono::seconds(5)).ranks;
  };
  EXPECT_EQ(ranks("A=1 ", "/usr/bin/xoe run --rendezvous auto -np 4 -- python train.py "), 4);
  EXPECT_EQ(ranks("A=1 ", "xoe run -- python -np 4 "), std::nullopt);
  EXPECT_EQ(ranks("A=1 ", "sleep run -np 4 "), std::nullopt);
  EXPECT_EQ(ranks("PET_NPROC_PER_NODE=2 ", "xoe run -np 4 "), 2);
  EXPECT_EQ(ranks("XOE_LOCAL_SIZE=8 PET_NPROC_PER_NODE=2 ", ""), 8);
  EXPECT_EQ(ranks("A=1 ", ""), std::nullopt);
}

TEST(Container, ALeaderWithoutAddressIsNamed) {
  const ContainerFacts facts{.runtime = "Kubernetes",
                             .tried = true,
                             .leader = {.variable = "PET_MASTER_ADDR", .host = "a-0.b", .error = "no such name"}};
  const Finding leader = find(check(facts), "container.leader");
  EXPECT_EQ(leader.severity, Severity::kWarning);
  EXPECT_THAT(leader.what, HasSubstr("host a-0.b of rank 0 (PET_MASTER_ADDR) has no address: no such name"));
  EXPECT_THAT(leader.fix, HasSubstr("publishNotReadyAddresses"));
}

TEST(Virtualization, RanksOfAHostBelongTogetherWhereTheyAreApart) {
  const auto fix = [](std::string variables, const std::string& file = "a", const std::string& content = "") {
    const Scratch root;
    std::replace(variables.begin(), variables.end(), ' ', '\0');
    put(root, "proc/self/environ", variables);
    put(root, file, content);
    return find(check_virtualization(read_virtualization(Tree(root.path()))), "virtual.container").fix;
  };
  const std::string pod = "KUBERNETES_SERVICE_HOST=10.96.0.1 ", apart = pod + "PET_NPROC_PER_NODE=1 PET_NNODES=";
  EXPECT_EQ(fix(pod), "");
  EXPECT_EQ(fix(pod + "PET_NPROC_PER_NODE=4 PET_NNODES=2"), "");
  EXPECT_EQ(fix(apart + "1"), "");
  EXPECT_EQ(fix(apart + "1:1"), "");
  EXPECT_THAT(fix(apart + "2:2"), HasSubstr("one pod a node, with all its ranks"));
  EXPECT_EQ(fix(apart + "2", "proc/1/comm", "pause\n"), "");
  EXPECT_THAT(fix("A=1", ".dockerenv"), HasSubstr("--pid=host"));
  const Scratch root;
  put(root, ".dockerenv", "");
  put(root, "proc/2/comm", "kthreadd\n");
  EXPECT_EQ(find(check_virtualization(read_virtualization(Tree(root.path()))), "virtual.container").fix, "");
}

// The lines of a pod's manifest mend what the row says, and nothing else.
std::string lines_for(const ContainerFacts& facts, std::string_view id) { return find(check(facts), id).manifest; }

TEST(Manifest, NamesTheUser) {
  EXPECT_THAT(lines_for({.uid = 1234}, "container.user"), HasSubstr("env: [{name: USER, value: xoe}, {name: LOGNAME"));
  EXPECT_THAT(lines_for({.uid = 0, .named_user = true}, "container.user"), HasSubstr("runAsNonRoot: true"));
  const Finding named = find(check({.uid = 1234, .user_variable = "USER"}), "container.user");
  EXPECT_EQ(named.severity, Severity::kOk);
  EXPECT_EQ(named.what, "user 1234, whose name USER gives");
  EXPECT_EQ(named.manifest, "");
}

TEST(Manifest, MountsWhatIsMissingAtItsPath) {
  ContainerFacts facts{.temporary = "/scratch", .home = "/nowhere"};
  EXPECT_THAT(lines_for(facts, "container.files"), HasSubstr("mountPath: /scratch"));
  facts.temporary_writable = true;
  EXPECT_THAT(lines_for(facts, "container.files"), HasSubstr("env: [{name: HOME, value: /scratch}]"));
  EXPECT_THAT(lines_for({.secret = "/run/job/key", .secret_error = "it cannot be read"}, "container.secret"),
              testing::AllOf(HasSubstr("mountPath: /run/job,"), HasSubstr("# with the key key")));
  EXPECT_EQ(lines_for({.secret = "/run/job/key", .secret_read = true, .secret_error = "short"}, "container.secret"),
            "");
}

TEST(Manifest, NamesTheClusterAsTheNetworkOfThePodNeedsIt) {
  ContainerFacts facts{.runtime = "Kubernetes", .name_servers = {"192.168.1.1"}};
  EXPECT_EQ(lines_for(facts, "container.dns"), "spec:\n  dnsPolicy: ClusterFirst\n");
  facts.host_network = true;
  EXPECT_EQ(lines_for(facts, "container.dns"), "spec:\n  dnsPolicy: ClusterFirstWithHostNet\n");
  const Scratch root;
  put(root, "etc/hosts", "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n");
  EXPECT_TRUE(read_container(Tree(root.path()), "Kubernetes", {}, std::chrono::seconds(5)).host_network);
}

TEST(Manifest, GivesASubdomainOnlyToPodsWithoutOne) {
  ContainerFacts facts{.tried = true, .index = 1};
  EXPECT_THAT(lines_for(facts, "container.leader"), HasSubstr("subdomain: SERVICE"));
  facts.full_name = "worker.train.team.svc.cluster.local";
  facts.leader.variable = "JOB_COMPLETION_INDEX";
  EXPECT_THAT(find(check(facts), "container.leader").fix, HasSubstr("leave hostname out"));
  EXPECT_EQ(lines_for(facts, "container.leader"), "");
  facts.leader.host = "a-0.b";
  EXPECT_EQ(lines_for(facts, "container.leader"), "");
  facts.full_name.clear();
  EXPECT_THAT(lines_for(facts, "container.leader"), HasSubstr("subdomain: SERVICE"));
}

TEST(Manifest, AsksForGpusWhereNoneWereAskedFor) {
  ContainerFacts facts{.runtime = "Kubernetes", .gpus_wanted = "all"};
  EXPECT_THAT(lines_for(facts, "container.gpu"), HasSubstr("nvidia.com/gpu"));
  facts.gpus_wanted = "GPU-1234";  // of the device plugin
  EXPECT_THAT(lines_for(facts, "container.gpu"), HasSubstr("runtimeClassName: nvidia"));
  facts.gpu_devices = {"nvidia0", "nvidiactl"};
  EXPECT_EQ(lines_for(facts, "container.gpu"), "");  // the node lacks nvidia-uvm
}

TEST(Manifest, NamesAFilterOnlyWhereOneIsSet) {
  ContainerFacts facts{.tried = true, .refused = {{"pidfd_open", "Function not implemented", ""}}};
  EXPECT_EQ(lines_for(facts, "container.calls"), "");
  EXPECT_THAT(find(check(facts), "container.calls").fix, HasSubstr("no filter is set here"));
  facts.filtered = true;
  EXPECT_THAT(lines_for(facts, "container.calls"), HasSubstr("RuntimeDefault"));
}

TEST(Manifest, NeverLowersALimit) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  const auto lines = [](std::int64_t ranks, std::uint64_t limit, std::uint64_t shm) {
    return find(check_container({.ranks = ranks}, {}, {.shm = shm}, {.memory = limit}), "container.memory").manifest;
  };
  EXPECT_THAT(lines(64, 20 * kGiB, 0), HasSubstr("memory: 256Gi"));
  EXPECT_THAT(lines(1, 4 * kGiB, 8 * kGiB), HasSubstr("emptyDir: {medium: Memory, sizeLimit: 2048Mi}"));
  EXPECT_EQ(lines(1, 4 * kGiB, kGiB), "");
  const auto group = [](std::uint64_t limit, std::uint64_t used) {
    return find(check_memory({.total = 99 * kGiB}, {.memory = limit, .memory_used = used}), "memory.cgroup");
  };
  EXPECT_EQ(group(64 * kGiB, kGiB).fix, "");
  EXPECT_EQ(group(64 * kGiB, kGiB).manifest, "");
  EXPECT_THAT(group(64 * kGiB, 63 * kGiB).manifest, HasSubstr("memory: 128Gi"));
}

TEST(Container, LostPacketsAreAProblem) {
  ContainerFacts facts{.leader = {.variable = "PET_MASTER_ADDR", .host = "a-0", .address = "10.0.0.2"},
                       .interface = "eth0",
                       .mtu = 1500};
  const auto severity = [&facts](PathMtu::State state, std::int64_t mtu) {
    facts.path = PathMtu{.state = state, .mtu = mtu};
    return find(check(facts), "container.mtu").severity;
  };
  EXPECT_EQ(severity(PathMtu::State::kLost, 1500), Severity::kProblem);
  EXPECT_EQ(severity(PathMtu::State::kSmaller, 1400), Severity::kNote);
  EXPECT_EQ(severity(PathMtu::State::kReached, 1500), Severity::kOk);
  EXPECT_EQ(severity(PathMtu::State::kUnknown, 1500), Severity::kOk);
}

TEST(Container, LoopbackIsReachedAtItsWholeSize) {
  const PathMtu path = probe_path("127.0.0.1", std::chrono::seconds(10));
  EXPECT_EQ(path.state, PathMtu::State::kReached);
  EXPECT_GE(path.mtu, 1500);
  EXPECT_EQ(probe_path("no number", std::chrono::seconds(10)).state, PathMtu::State::kUnknown);
}

TEST(Container, RefusedCallsAreAProblemOnlyWhereXoeNeedsThem) {
  ContainerFacts facts{.tried = true, .refused = {{"membarrier", "Operation not permitted", "it is slower"}}};
  EXPECT_EQ(find(check(facts), "container.calls").severity, Severity::kNote);
  facts.refused.push_back({"pidfd_open", "it crashed: Bad system call", ""});
  const Finding calls = find(check(facts), "container.calls");
  EXPECT_EQ(calls.severity, Severity::kProblem);
  EXPECT_EQ(calls.what, "refused: pidfd_open: it crashed: Bad system call");
}

TEST(Container, GpusThatAreNotThere) {
  const auto state = [](const ContainerFacts& facts) { return find(check(facts), "container.gpu").severity; };
  EXPECT_EQ(state({}), Severity::kOk);
  EXPECT_EQ(state({.gpus_wanted = "all"}), Severity::kNote);
  EXPECT_EQ(state({.gpus_wanted = "0,1"}), Severity::kProblem);
  EXPECT_EQ(state({.gpus_wanted = "all", .gpu_devices = {"nvidia0", "nvidiactl"}}), Severity::kWarning);
  EXPECT_EQ(state({.gpu_devices = {"nvidia-uvm", "nvidia0", "nvidiactl"}}), Severity::kOk);
  EXPECT_EQ(state({.gpu_devices = {"nvidia-uvm", "nvidia0", "nvidiactl"}, .device_refused = "Operation not permitted"}),
            Severity::kProblem);
}

TEST(Installation, PluginsThatDoNotLoadSayWhy) {
  using namespace std::chrono_literals;
  const Scratch folder;
  put_file(folder.file("libxoe-gloo.so"), "no library");
  std::filesystem::copy_file(built_file("libmock_nccl_version.so"), folder.file("libxoe-mpi-mpich.so"));
  InstallationFacts facts{.version = "1.2.3", .program = "/opt/xoe/bin/xoe-doctor"};
  find_plugins(facts, folder.path(), 20s);
  const Findings all = check_installation(facts);
  expect_states(
      all,
      {{"xoe.gloo", Severity::kWarning}, {"xoe.mpi-mpich", Severity::kWarning}, {"xoe.mpi-openmpi", Severity::kNote}});
  EXPECT_THAT(find(all, "xoe.gloo").what, HasSubstr("libxoe-gloo.so"));
  EXPECT_THAT(find(all, "xoe.mpi-mpich").what, HasSubstr("belongs to another Xoe (0.0.1 test; this is 1.2.3)"));
  EXPECT_TRUE(loading_engines(facts).empty());

  facts.plugins.clear();
  facts.version = "0.0.1";
  find_plugins(facts, folder.path(), 20s);
  expect_states(check_installation(facts), {{"xoe.mpi-mpich", Severity::kOk}});
  EXPECT_THAT(loading_engines(facts), ElementsAre("mpi"));
}

TEST(Installation, TheChoiceIsThatOfTheRanks) {
  EXPECT_EQ(say_engines({}), "");
  EXPECT_EQ(say_engines({"gloo"}), "hierarchical over gloo");
  EXPECT_EQ(say_engines({"mpi"}), "hierarchical over mpi, under mpirun or srun only");
  EXPECT_EQ(say_engines({"gloo", "mpi"}), "hierarchical over gloo, over mpi under mpirun or srun");

  InstallationFacts facts{.plugins = {{.name = "gloo", .path = "g"}, {.name = "mpi-openmpi", .path = "m"}}};
  EXPECT_EQ(find(check_installation(facts), "xoe.backend").severity, Severity::kOk);
  facts.rdma = true;
  EXPECT_THAT(find(check_installation(facts), "xoe.backend").fix, HasSubstr("start jobs with mpirun or srun"));
  facts.plugins.pop_back();
  EXPECT_EQ(find(check_installation(facts), "xoe.backend").details["between_hosts"], "gloo");
  facts.plugins.clear();
  EXPECT_THAT(find(check_installation(facts), "xoe.backend").what, HasSubstr("on several: none"));
}

TEST(Installation, AnMpiThatIsNotHereIsNoFault) {
  const std::string error = "libmpi.so.40: cannot open shared object file: No such file or directory";
  const InstallationFacts facts{.plugins = {{.name = "mpi-openmpi", .path = "m", .error = error},
                                            {.name = "gloo", .path = "g", .error = "libz.so: " + error}}};
  const Findings all = check_installation(facts);
  expect_states(all, {{"xoe.mpi-openmpi", Severity::kNote}, {"xoe.gloo", Severity::kWarning}});
  EXPECT_THAT(find(all, "xoe.mpi-openmpi").what, HasSubstr("libmpi.so.40"));
}

TEST(Installation, SharingIsTried) { EXPECT_EQ(try_sharing(std::chrono::seconds(20)), ""); }

TEST(Rdma, DriversOfOneOriginAreNoFault) {
  const auto driver = [](const RdmaDriver& driver) {
    return find(check_rdma({.ports = {{.device = "mlx5_0"}}, .driver = driver}), "rdma.driver");
  };
  EXPECT_EQ(driver({}).severity, Severity::kSkipped);
  EXPECT_EQ(driver({.inbox = {"ib_core"}}).severity, Severity::kOk);
  EXPECT_EQ(driver({.added = {"ib_core"}, .version = "5.8-1", .package = "MLNX_OFED_LINUX-5.8"}).what,
            "MLNX_OFED_LINUX-5.8, mlx5_core 5.8-1");
  // After an update of the kernel the modules were not built again.
  const Finding left = driver({.inbox = {"ib_core", "mlx5_core"}, .package = "MLNX_OFED_LINUX-5.8"});
  EXPECT_EQ(left.severity, Severity::kNote);
  EXPECT_THAT(left.fix, HasSubstr("nothing, in a container"));
  // Drivers that are loaded again take the cards from jobs that run.
  const Finding mixed = driver({.inbox = {"ib_core"}, .added = {"mlx5_core"}, .package = "MLNX_OFED_LINUX-5.8"});
  EXPECT_EQ(mixed.severity, Severity::kWarning);
  for (const Finding& finding : {left, mixed}) {
    EXPECT_THAT(finding.fix, HasSubstr("on the host, with no job running: "));
    EXPECT_THAT(finding.fix, HasSubstr("dkms autoinstall"));
    EXPECT_THAT(finding.fix, HasSubstr("then reboot"));
    EXPECT_THAT(finding.fix, testing::Not(HasSubstr("openibd")));
  }
}

TEST(Rdma, WaysToGpuMemoryDependOnBothDrivers) {
  RdmaFacts facts{.ports = {{.device = "mlx5_0"}}, .driver = {.inbox = {"ib_core"}}, .nvidia_gpus = true};
  EXPECT_THAT(find(check_rdma(facts), "rdma.gpu_memory").fix, HasSubstr("open kernel modules"));
  facts.nvidia_open = true;
  EXPECT_THAT(find(check_rdma(facts), "rdma.gpu_memory").fix, HasSubstr("nothing, where NCCL uses DMA-BUF"));
  facts = {.ports = facts.ports, .driver = {.added = {"ib_core"}}, .nvidia_gpus = true};
  EXPECT_THAT(find(check_rdma(facts), "rdma.gpu_memory").fix, HasSubstr("modprobe nvidia_peermem"));
}

TEST(Network, IpOverInfinibandIsAFaultWhereNothingElseUsesTheCard) {
  std::vector<NetworkInterface> interfaces = {
      {.name = "ib0", .kind = "infiniband", .mode = "connected", .up = true, .mtu = 65520, .addresses = {"10.0.0.1"}}};
  const RdmaFacts open{.ports = {{.device = "mlx5_0", .state = "ACTIVE"}}, .verbs = {"uverbs0"}};
  expect_states(check_ip_over_infiniband(interfaces, open), {{"network.ipoib", Severity::kNote}});
  const Findings closed = check_ip_over_infiniband(interfaces, {.ports = open.ports});
  expect_states(closed, {{"network.ipoib", Severity::kWarning}});
  EXPECT_THAT(find(closed, "network.ipoib").fix, testing::Not(HasSubstr("mtu 65520")));
  interfaces.front().kind = "ethernet";
  EXPECT_TRUE(check_ip_over_infiniband(interfaces, open).empty());
}

// A GPU of a machine, with these lines of its address ranges.
Finding memory_of_gpu(std::string_view ranges, const Virtualization& machine, bool efi = true) {
  const Scratch root;
  const std::string folder = "sys/bus/pci/devices/0000:03:00.0/";
  put(root, folder + "vendor", "0x10de\n");
  put(root, folder + "class", "0x030200\n");
  put(root, folder + "resource", ranges);
  if (efi) put(root, "sys/firmware/efi/fw_platform_size", "64\n");
  return find(check_pcie(read_pcie(Tree(root.path()), machine)), "pcie.memory");
}

constexpr std::string_view kRegisters = "0x00000000fb000000 0x00000000fbffffff 0x0000000000040200\n";
constexpr std::string_view kNoRange = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
const Virtualization kVmware{.virtual_machine = true, .hypervisor = "VMware"};

// The kernel's file `resource` has six ranges of the function, its ROM, and more.
std::string resource_lines(std::initializer_list<std::string_view> first) {
  std::string lines;
  for (const std::string_view line : first) lines += line;
  for (std::size_t number = first.size(); number < 6; ++number) lines += kNoRange;
  lines += "0x00000000fc000000 0x00000003fc07ffff 0x0000000000046200\n";
  for (int number = 7; number < 13; ++number) lines += kNoRange;
  return lines;
}

TEST(Pcie, GpusWhoseMemoryHasNoAddresses) {
  const auto lines = [](std::string_view second) { return resource_lines({kRegisters, second}); };
  const Virtualization kvm{.virtual_machine = true, .hypervisor = "KVM"};
  const std::string whole = lines("0x0000020000000000 0x00000207ffffffff 0x000000000014220c\n");
  EXPECT_EQ(memory_of_gpu(whole, kVmware).severity, Severity::kOk);
  EXPECT_EQ(memory_of_gpu(whole, kVmware).what, "the memory of all GPUs has addresses: 0000:03:00.0 (32 GiB)");
  const std::string window = lines("0x00000000e0000000 0x00000000efffffff 0x000000000014220c\n");
  EXPECT_EQ(memory_of_gpu(window, {}).severity, Severity::kNote);

  const std::string unset = lines("0x0000000000000000 0x0000001fffffffff 0x000000002014220c\n");
  EXPECT_EQ(memory_of_gpu(unset, kVmware).severity, Severity::kProblem);
  EXPECT_THAT(memory_of_gpu(unset, kVmware).fix, HasSubstr("64bitMMIOSizeGB = 256;"));
  EXPECT_THAT(memory_of_gpu(unset, kvm).fix, HasSubstr("X-PciMmio64Mb,string=262144;"));
  EXPECT_THAT(memory_of_gpu(unset, {}, false).what, HasSubstr("booted by a BIOS"));
  // Only KVM has QEMU's options.
  for (const char* const name : {"Hyper-V", "Xen", "Amazon EC2", "Google Compute Engine", ""})
    EXPECT_EQ(memory_of_gpu(unset, {.virtual_machine = true, .hypervisor = name}).fix,
              "ask for a machine that is booted by EFI and has room for memory mapped I/O above 4 GB");
  // Its size is not known.
  EXPECT_EQ(memory_of_gpu(lines(kNoRange), kVmware).severity, Severity::kProblem);
  EXPECT_THAT(memory_of_gpu(lines(kNoRange), kVmware).fix, HasSubstr("64bitMMIOSizeGB = 64 (or more: twice"));
}

// Hopper's ranges all have 64 bits, and take two numbers each: registers, memory, registers.
TEST(Pcie, TheLargestRangeLeadsToTheMemory) {
  constexpr std::string_view kFirst = "0x00002a0042000000 0x00002a0042ffffff 0x000000000014220c\n";
  constexpr std::string_view kThird = "0x00002a0040000000 0x00002a0041ffffff 0x000000000014220c\n";
  const auto lines = [&](std::string_view memory) {
    return resource_lines({kFirst, kNoRange, memory, kNoRange, kThird, kNoRange});
  };
  const Finding assigned = memory_of_gpu(lines("0x00002a0000000000 0x00002a1fffffffff 0x000000000014220c\n"), {});
  EXPECT_EQ(assigned.severity, Severity::kOk);
  EXPECT_EQ(assigned.details["gpus"][0]["range"], 2);
  EXPECT_EQ(assigned.what, "the memory of all GPUs has addresses: 0000:03:00.0 (128 GiB)");
  const Finding unset = memory_of_gpu(lines("0x0000000000000000 0x0000001fffffffff 0x000000002014220c\n"), {});
  EXPECT_EQ(unset.severity, Severity::kProblem);
  EXPECT_THAT(unset.what, HasSubstr("no addresses for the memory of 0000:03:00.0 (128 GiB)"));
  EXPECT_EQ(memory_of_gpu(lines(kNoRange), {}).severity, Severity::kProblem);
}

TEST(Pcie, LinesThatCannotBeReadSayNothing) {
  const std::string registers(kRegisters);
  const std::string none(kNoRange);
  for (const std::string& text :
       {std::string(), std::string("nonsense\n0x1 0x2\n"), registers, registers + none,
        registers + "0x1 0x2 x\n" + none + none + none + none, registers + "0x1 0x2\n" + none + none + none + none})
    EXPECT_EQ(memory_of_gpu(text, kVmware).severity, Severity::kSkipped) << text;
}

TEST(Processes, PoliciesThatConfineAreNamed) {
  const auto confined = [](const ProcessFacts& facts) { return find(check_processes(facts, {}), "process.confined"); };
  EXPECT_EQ(confined({}).severity, Severity::kOk);
  EXPECT_EQ(confined({.label = "unconfined"}).severity, Severity::kOk);
  EXPECT_EQ(confined({.label = "docker-default (complain)"}).severity, Severity::kOk);
  EXPECT_THAT(confined({.label = "docker-default (enforce)"}).what, HasSubstr("AppArmor profile docker-default"));
  const std::string container = "system_u:system_r:container_t:s0:c1,c2";
  EXPECT_THAT(confined({.selinux_enforces = true, .label = container}).fix, HasSubstr("-v DIR:DIR:z"));
  EXPECT_EQ(confined({.selinux_enforces = false, .label = container}).severity, Severity::kOk);
  EXPECT_THAT(confined({.selinux_enforces = true, .label = "system_u:system_r:slurmd_t:s0"}).what,
              HasSubstr("slurmd_t"));
  // Relabelled folders of the host would be lost to it, so that the other way comes first.
  const std::string fix = confined({.selinux_enforces = true, .label = container}).fix;
  EXPECT_LT(fix.find("--security-opt label=disable"), fix.find("-v DIR:DIR:z"));
  EXPECT_THAT(fix, HasSubstr("for folders of the job alone"));
  EXPECT_EQ(confined({.selinux_enforces = true, .label = "u:r:spc_t:s0"}).severity, Severity::kOk);
  const Finding denied = confined({.selinux_enforces = true, .label = "u:r:unconfined_t:s0", .denies_ptrace = true});
  EXPECT_EQ(denied.severity, Severity::kNote);
  EXPECT_THAT(denied.fix, HasSubstr("setsebool deny_ptrace off"));
  EXPECT_EQ(confined({.label = "unconfined", .denies_ptrace = true}).severity, Severity::kOk);
}

TEST(Processes, ALabelIsNamedWhereAContainerHidesItsPolicy) {
  const auto confined = [](const std::string& label) {
    const Scratch root;
    put(root, "proc/self/attr/current", label);
    return find(check_processes(read_processes(Tree(root.path())), {}), "process.confined");
  };
  const Finding container = confined("system_u:system_r:container_t:s0:c1,c2");
  EXPECT_EQ(container.severity, Severity::kNote);
  EXPECT_EQ(container.what, "labelled container_t; whether SELinux enforces it cannot be seen here");
  EXPECT_THAT(container.fix, HasSubstr("--security-opt label=disable"));
  EXPECT_EQ(container.details["selinux_enforces"], Json());
  EXPECT_THAT(confined("system_u:system_r:slurmd_t:s0").what, HasSubstr("labelled slurmd_t"));
  for (const char* const label : {"system_u:system_r:spc_t:s0", "u:r:unconfined_t:s0-s0:c0.c1023", "unconfined",
                                  ":host://unconfined", "a:b:c (complain)", "a:b"})
    EXPECT_EQ(confined(label).severity, Severity::kOk) << label;
}

TEST(Processes, LabelsAreReadWhereTheKernelHasThem) {
  const auto label = [](const std::string& file, const std::string& content, bool selinux) {
    const Scratch root;
    put(root, file, content);
    if (selinux) put(root, "sys/fs/selinux/enforce", "1\n");
    return read_processes(Tree(root.path())).label;
  };
  EXPECT_EQ(label("proc/self/attr/apparmor/current", "snap.code (enforce)\n", false), "snap.code (enforce)");
  EXPECT_EQ(label("proc/self/attr/current", std::string("u:r:container_t:s0\0", 19), true), "u:r:container_t:s0");
  EXPECT_EQ(label("proc/self/attr/apparmor/current", "unconfined\n", true), "");
}

TEST(Virtualization, VersionsOfLinuxUnderWindows) {
  const auto wsl = [](const std::string& release) {
    const Scratch root;
    put(root, "proc/sys/kernel/osrelease", release);
    return read_virtualization(Tree(root.path())).wsl;
  };
  EXPECT_EQ(wsl("4.4.0-19041-Microsoft"), 1);
  EXPECT_EQ(wsl("5.15.153.1-microsoft-standard-WSL2"), 2);
  EXPECT_EQ(wsl("6.1.0-18-amd64"), 0);
  for (const char* const name : {"WSLInterop", "WSLInterop-late"}) {
    const Scratch root;
    put(root, "proc/sys/kernel/osrelease", "6.6.9-mine\n");
    put(root, std::string("proc/sys/fs/binfmt_misc/") + name, "enabled\n");
    EXPECT_EQ(read_virtualization(Tree(root.path())).wsl, 2) << name;
  }
  expect_states(check_virtualization({.wsl = 1}), {{"virtual.wsl", Severity::kProblem}});
}

TEST(Cpu, TheGroupThatIsStoppedMostIsTold) {
  const Scratch root;
  put(root, "proc/self/cgroup", "0::/a/b\n");
  put(root, "sys/fs/cgroup/a/b/cpu.stat", "nr_periods 10\nnr_throttled 1\n");
  put(root, "sys/fs/cgroup/a/cpu.stat", "nr_periods 90\nnr_throttled 30\n");
  const CpuFacts facts = read_cpu(Tree(root.path()));
  EXPECT_EQ(facts.periods, 90);
  EXPECT_EQ(facts.throttled, 30);
  EXPECT_THAT(find(check_cpu(facts, 2.0), "cpu.quota").what, HasSubstr("stood still in 30 of 90 periods"));
  put(root, "proc/self/cgroup", "0::/../x\n");
  EXPECT_EQ(read_cpu(Tree(root.path())).throttled, 0);
}

}  // namespace
}  // namespace xoe::doctor

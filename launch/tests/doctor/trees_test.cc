// Recorded machines: what is found there, and what is said about it.
#include <gmock/gmock.h>

#include <set>

#include "core/testing/places.h"
#include "core/testing/scratch.h"
#include "launch/doctor/report/report.h"
#include "launch/tests/doctor/findings.h"

namespace xoe::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Report examine_tree(const std::string& name, std::vector<std::string> only = {}) {
  return examine({.root = tree_path(name),
                  .only = std::move(only),
                  .nvml = built_file("libmock_nvml.so"),
                  .nccl = built_file("libmock_nccl_version.so"),
                  .version = "1.2.3"})
      .value();
}

TEST(Trees, VirtualMachineWithTwoGpusAndTwoPorts) {
  const Report report = examine_tree("vm");
  EXPECT_EQ(report.host, "gpuvm");
  const Findings& all = report.findings;
  expect_states(all, {{"virtual.machine", Severity::kNote},
                      {"virtual.container", Severity::kOk},
                      {"rdma.mlx5_0.1", Severity::kOk},
                      {"rdma.mlx5_1.1", Severity::kOk},
                      {"rdma.mlx5_1.2", Severity::kWarning},
                      {"rdma.access", Severity::kOk},
                      {"rdma.gpu_memory", Severity::kNote},
                      {"memory.memlock", Severity::kWarning},
                      {"pcie.acs", Severity::kWarning},
                      {"pcie.ats", Severity::kOk},
                      {"pcie.links", Severity::kWarning},
                      {"network.tcp", Severity::kNote},
                      {"gpu.driver", Severity::kOk},
                      {"gpu.0", Severity::kOk},
                      {"gpu.1", Severity::kOk},
                      {"gpu.topology", Severity::kOk}});
  EXPECT_EQ(find(all, "virtual.machine").details["hypervisor"], "VMware");
  EXPECT_THAT(find(all, "virtual.machine").fix, HasSubstr("pciPassthru.allowP2P"));
}

TEST(Trees, PortsHaveTheInterfacesThatIbdev2netdevPrints) {
  const Findings all = examine_tree("vm", {"rdma"}).findings;
  EXPECT_EQ(find(all, "rdma.mlx5_0.1").details["ibdev2netdev"], "mlx5_0 port 1 ==> ens224np0 (Up)");
  EXPECT_EQ(find(all, "rdma.mlx5_1.1").details["ibdev2netdev"], "mlx5_1 port 1 ==> ib0 (Up)");
  EXPECT_EQ(find(all, "rdma.mlx5_0.1").details["link_layer"], "Ethernet");
  EXPECT_EQ(find(all, "rdma.mlx5_1.1").details["link_layer"], "InfiniBand");
  EXPECT_EQ(find(all, "rdma.mlx5_1.1").details["rate"], "200 Gb/sec (4X HDR)");
  EXPECT_EQ(find(all, "rdma.mlx5_1.1").details["pci"], "0000:1b:00.0");
  EXPECT_THAT(find(all, "rdma.mlx5_1.2").fix, HasSubstr("cable"));
}

TEST(Trees, TheOneBridgeThatRedirectsIsNamed) {
  const Findings all = examine_tree("vm", {"pcie"}).findings;
  const Finding& acs = find(all, "pcie.acs");
  EXPECT_EQ(acs.details["redirecting"], Json::array({"0000:00:17.0"}));
  EXPECT_THAT(acs.fix, HasSubstr("setpci -s 0000:00:17.0 ECAP_ACS+6.w=0000"));
  EXPECT_EQ(acs.details["bridges"].size(), 4U);
  std::set<std::string> with_acs;
  for (const Json& bridge : acs.details["bridges"])
    if (bridge["acs"].get<bool>()) with_acs.insert(bridge["bridge"]);
  EXPECT_EQ(with_acs, (std::set<std::string>{"0000:00:15.0", "0000:00:16.0", "0000:00:17.0"}));
  EXPECT_THAT(find(all, "pcie.ats").what, HasSubstr("on: 0000:13:00.0; off: 0000:1b:00.0"));
  EXPECT_THAT(find(all, "pcie.links").what, HasSubstr("0000:1b:00.0 has 8 of 16 lanes"));
}

TEST(Trees, DefaultRouteIsTakenAndTheFasterOneNamed) {
  const Report report = examine_tree("vm", {"network"});
  const Finding& tcp = find(report.findings, "network.tcp");
  EXPECT_EQ(tcp.details["interface"], "ens192");
  EXPECT_EQ(tcp.details["address"], "10.1.0.5");
  EXPECT_EQ(tcp.details["faster"], "ib0");
  ASSERT_EQ(report.addresses.size(), 3U);
  EXPECT_EQ(report.addresses[0].interface, "ens192");
  EXPECT_EQ(find(report.findings, "network.ens224np0").details["mtu"], 9000);
  EXPECT_EQ(find(report.findings, "network.ens224np0").details["addresses"], Json::array({"10.2.0.5"}));
  EXPECT_EQ(find(report.findings, "network.ens224np0").details["driver"], "mlx5_core");
}

TEST(Trees, ContainerWithDefaultSharedMemoryAndLimits) {
  const Findings all = examine_tree("container", {"cpu", "memory", "process", "virtual"}).findings;
  expect_states(all, {{"memory.shm", Severity::kWarning},
                      {"memory.cgroup", Severity::kNote},
                      {"cpu.quota", Severity::kWarning},
                      {"process.count", Severity::kWarning},
                      {"process.seccomp", Severity::kNote},
                      {"memory.memlock", Severity::kNote},
                      {"virtual.container", Severity::kNote},
                      {"virtual.machine", Severity::kNote}});
  EXPECT_EQ(find(all, "memory.shm").details["size"], 64 << 20);
  EXPECT_THAT(find(all, "memory.shm").fix, HasSubstr("--shm-size"));
  EXPECT_EQ(find(all, "memory.cgroup").details["limit"], std::uint64_t{8} << 30);
  EXPECT_EQ(find(all, "memory.cgroup").fix, "");
  EXPECT_THAT(find(all, "virtual.container").fix, HasSubstr("--pid=host"));
  for (const Finding& finding : all) EXPECT_EQ(finding.manifest, "") << finding.id;  // this is no pod
  EXPECT_EQ(find(all, "cpu.quota").details["processors"], 2.5);
  EXPECT_THAT(find(all, "cpu.quota").fix, HasSubstr("at most 2 ranks"));
  EXPECT_EQ(find(all, "process.count").details["limit"], 100);
  EXPECT_EQ(find(all, "virtual.container").details["container"], "Docker");
  EXPECT_EQ(find(all, "virtual.machine").details["hypervisor"], "KVM");
}

TEST(Trees, APodInWhichMuchIsWrongSaysWhatItsManifestNeeds) {
  const Findings all = examine_tree("pod").findings;
  expect_states(all, {{"virtual.container", Severity::kNote},
                      {"container.cpu", Severity::kWarning},
                      {"container.memory", Severity::kWarning},
                      {"container.dns", Severity::kWarning},
                      {"container.leader", Severity::kWarning},
                      {"container.mtu", Severity::kOk},
                      {"container.gpu", Severity::kProblem},
                      {"container.calls", Severity::kSkipped},
                      {"container.files", Severity::kWarning},
                      {"container.user", Severity::kNote},
                      {"container.secret", Severity::kProblem},
                      {"memory.shm", Severity::kWarning}});
  EXPECT_EQ(find(all, "virtual.container").details["container"], "Kubernetes");
  EXPECT_THAT(find(all, "container.cpu").what, HasSubstr("32 threads share 2 processors"));
  EXPECT_THAT(find(all, "container.memory").what, HasSubstr("256 MiB for each of 4 ranks"));
  EXPECT_THAT(find(all, "container.dns").what, HasSubstr("192.168.1.1 and no cluster DNS"));
  EXPECT_THAT(find(all, "container.leader").what, HasSubstr("no name under a headless Service"));
  EXPECT_THAT(find(all, "container.mtu").what, HasSubstr("1450 bytes, as VXLAN"));
  EXPECT_THAT(find(all, "container.gpu").what, HasSubstr("GPU-5ad4a1b2, but there is no GPU"));
  EXPECT_THAT(find(all, "container.files").what, HasSubstr("read-only, and /tmp cannot be written"));
  EXPECT_THAT(find(all, "container.secret").what, HasSubstr("it has 5 bytes"));
  const auto manifest = [&all](std::string_view id) { return find(all, id).manifest; };
  EXPECT_EQ(manifest("container.cpu"),
            "spec:\n  containers:\n  - name: NAME\n    resources: {limits: {cpu: \"32\"}}\n");
  EXPECT_EQ(manifest("container.dns"), "spec:\n  dnsPolicy: ClusterFirst\n");
  EXPECT_THAT(manifest("memory.shm"), HasSubstr("emptyDir: {medium: Memory"));
  EXPECT_EQ(manifest("container.gpu"), "spec:\n  runtimeClassName: nvidia\n");
  EXPECT_EQ(manifest("container.user"),
            "spec:\n  containers:\n  - name: NAME\n    env: [{name: USER, value: xoe}, {name: LOGNAME, value: xoe}]\n");
  EXPECT_THAT(manifest("container.memory"), HasSubstr("memory: 16Gi"));
  EXPECT_EQ(manifest("container.mtu"), "");
  EXPECT_EQ(manifest("container.secret"), "");        // the Secret is mounted: it is too short
  EXPECT_EQ(find(all, "virtual.container").fix, "");  // its four ranks are in this pod
}

TEST(Trees, AGoodPodNeedsNothing) {
  const Report report = examine_tree("good-pod", {"container", "virtual"});
  const Count count = count_severities(report.findings);
  EXPECT_EQ(count[Severity::kWarning] + count[Severity::kProblem], 0) << report_text(report, {});
  EXPECT_EQ(find(report.findings, "container.cpu").what, "4 ranks within the limit of 8 processors");
  const Finding& leader = find(report.findings, "container.leader");
  EXPECT_EQ(leader.details["host"], "train-workers-0-0.train.team.svc.cluster.local");
  for (const Finding& finding : report.findings) EXPECT_EQ(finding.manifest, "") << finding.id;
}

TEST(Trees, OutsideOfContainersTheGroupIsSilent) {
  for (const Finding& finding : examine_tree("bare").findings) EXPECT_NE(finding.group(), "container");
  expect_states(examine_tree("bare", {"container"}).findings, {{"container.runtime", Severity::kSkipped}});
}

TEST(Trees, ANodeWithWhatUsersOfClustersMeet) {
  const Findings all = examine_tree("node").findings;
  expect_states(all, {{"files.remote", Severity::kOk},
                      {"files.locks", Severity::kWarning},
                      {"files.errors", Severity::kWarning},
                      {"files.transfer", Severity::kWarning},
                      {"files.attributes", Severity::kNote},
                      {"files.places", Severity::kWarning},
                      {"process.confined", Severity::kNote},
                      {"cpu.quota", Severity::kWarning},
                      {"network.ipoib", Severity::kNote},
                      {"rdma.driver", Severity::kWarning},
                      {"pcie.memory", Severity::kProblem}});
  EXPECT_EQ(find(all, "files.locks").details["local"], "/home (nolock)");
  EXPECT_THAT(find(all, "files.transfer").what, HasSubstr("/old data (rsize=8192, wsize=8192, proto=udp)"));
  EXPECT_THAT(find(all, "files.places").what, HasSubstr("TMPDIR=/scratch/tmp on /scratch"));
  EXPECT_THAT(find(all, "files.places").what, HasSubstr("/conda/envs/torch on /home"));
  EXPECT_THAT(find(all, "cpu.quota").what, HasSubstr("it stood still in 300 of 1200 periods"));
  EXPECT_THAT(find(all, "network.ipoib").what, HasSubstr("ib0 is IP over InfiniBand in datagram mode, MTU 2044"));
  EXPECT_THAT(find(all, "rdma.driver").what, HasSubstr("mlx5_core, mlx5_ib from MLNX_OFED_LINUX-23.10-1.1.9.0"));
  EXPECT_THAT(find(all, "pcie.memory").what, HasSubstr("booted by a BIOS, found no addresses for the memory of"));
  EXPECT_THAT(find(all, "pcie.memory").what, HasSubstr("0000:18:00.0 (64 GiB)"));
  EXPECT_THAT(find(all, "pcie.memory").fix, HasSubstr("Above 4G Decoding"));
  EXPECT_THAT(find(all, "process.confined").what, HasSubstr("does not confine this process; deny_ptrace is on"));
}

TEST(Trees, LinuxUnderWindows) {
  const Findings all = examine_tree("wsl").findings;
  expect_states(all, {{"virtual.wsl", Severity::kNote},
                      {"virtual.container", Severity::kOk},
                      {"files.windows", Severity::kNote},
                      {"files.remote", Severity::kOk},
                      {"files.places", Severity::kNote}});
  EXPECT_EQ(find(all, "virtual.wsl").details["version"], 2);
  EXPECT_THAT(find(all, "virtual.wsl").fix, HasSubstr("networkingMode=mirrored"));
  EXPECT_THAT(find(all, "files.windows").what, HasSubstr("/mnt/c (C:\\)"));
  EXPECT_THAT(find(all, "files.places").what, HasSubstr("the environment is on a disk of Windows: VIRTUAL_ENV="));
  for (const Finding& finding : examine_tree("vm").findings) EXPECT_NE(finding.id, "virtual.wsl");
}

TEST(Trees, HealthyMachineHasNeitherWarningNorProblem) {
  const Report report =
      examine_tree("bare", {"cpu", "memory", "files", "process", "virtual", "network", "rdma", "pcie"});
  const Count count = count_severities(report.findings);
  EXPECT_EQ(count[Severity::kWarning], 0) << report_text(report, {});
  EXPECT_EQ(count[Severity::kProblem], 0);
  EXPECT_EQ(find(report.findings, "virtual.machine").details["virtual"], false);
  EXPECT_EQ(find(report.findings, "cpu.cores").details["cores"], 8);
  EXPECT_EQ(find(report.findings, "cpu.cores").details["sockets"], 2);
  EXPECT_EQ(find(report.findings, "cpu.numa").details["nodes"].size(), 2U);
  EXPECT_EQ(find(report.findings, "network.tcp").details["interface"], "eno1");
  // Docker's bridge leads nowhere.
  ASSERT_EQ(report.addresses.size(), 1U);
  EXPECT_EQ(report.addresses[0].address, "10.10.0.7");
}

TEST(Trees, EmptyTreeIsAllSkippedAndNoCrash) {
  const Scratch scratch;
  const Report report = examine({.root = scratch.path()}).value();
  EXPECT_EQ(count_severities(report.findings)[Severity::kProblem], 0);
  expect_states(report.findings, {{"cpu.features", Severity::kSkipped},
                                  {"cpu.cores", Severity::kSkipped},
                                  {"memory.size", Severity::kSkipped},
                                  {"memory.nofile", Severity::kSkipped},
                                  {"process.kernel", Severity::kSkipped},
                                  {"network.tcp", Severity::kWarning},
                                  {"gpu.driver", Severity::kSkipped},
                                  {"xoe.shm", Severity::kSkipped}});
}

TEST(Trees, UnknownGroupsAndRootsAreRefused) {
  const auto group = examine({.root = tree_path("bare"), .only = {"gpus"}});
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(group.error().message(), HasSubstr("cpu, memory"));
  EXPECT_FALSE(examine({.root = tree_path("none")}));
}

TEST(Trees, ReportsSurviveTheWayThroughJson) {
  const Report report = examine_tree("pod");
  const Report back = parse_report(to_line(json_of(report))).value();
  EXPECT_EQ(json_of(back), json_of(report));
  EXPECT_FALSE(parse_report("{}"));
  EXPECT_FALSE(parse_report("[1,2"));
  EXPECT_FALSE(parse_report(R"({"schema":1,"findings":[{"id":"a.b","state":"fine"}]})"));
  EXPECT_FALSE(parse_report(std::string(100'000, '[')));
}

TEST(Trees, TextShowsRemediesAndNoForeignControlCharacters) {
  Report report = examine_tree("pod");
  report.findings.front().what = "evil \033[2J\nname";
  const std::string text = report_text(report, {});
  EXPECT_THAT(text, HasSubstr("fix: docker run --shm-size=8g"));
  EXPECT_THAT(text, HasSubstr("\n           spec:\n             dnsPolicy: ClusterFirst\n"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(report_text(report, {.colours = true}), HasSubstr("\033[33m"));
}

}  // namespace
}  // namespace xoe::doctor

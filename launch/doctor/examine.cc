#include "launch/doctor/examine.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/base/cgroup.h"
#include "core/base/error.h"
#include "core/base/nearest_word.h"
#include "launch/doctor/checks/compute.h"
#include "launch/doctor/checks/container.h"
#include "launch/doctor/checks/gpus.h"
#include "launch/doctor/checks/host.h"
#include "launch/doctor/checks/installation.h"
#include "launch/doctor/checks/mounts.h"
#include "launch/doctor/checks/python.h"

namespace xoe::doctor {
namespace {

// Drivers take seconds to wake up where no daemon keeps them awake.
constexpr auto kDriverTimeout = std::chrono::seconds(20);
constexpr auto kLibraryTimeout = std::chrono::seconds(10);
constexpr auto kTryTimeout = std::chrono::seconds(5);
constexpr auto kPythonTimeout = std::chrono::seconds(50);    // PyTorch from a slow disk; other hosts have a minute
constexpr auto kComputeTimeout = std::chrono::seconds(180);  // two seconds a device, and a minute to wake them

std::string host_name(const Tree& tree) {
  char name[256] = {};
  if (tree.live() && ::gethostname(name, sizeof name - 1) == 0) return name;
  return tree.line("/etc/hostname");
}

Status check_options(const ExamineOptions& options) {
  for (const std::string& group : options.only) {
    if (std::find(std::begin(kGroups), std::end(kGroups), group) != std::end(kGroups)) continue;
    std::string known;
    for (const std::string_view name : kGroups) known.append(known.empty() ? "" : ", ").append(name);
    return failure(Code::kInvalidArgument, "--only: there is no group \"{}\"{}; the groups are {}", group,
                   did_you_mean(group, kGroups), known);
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.root, ignored))
    return failure(Code::kInvalidArgument, "--root {}: it is no folder", options.root);
  return {};
}

class Examination {
 public:
  explicit Examination(const ExamineOptions& options) : options_(options), tree_(options.root) {}

  Report run() {
    report_.host = host_name(tree_);
    const auto limits = read_cgroup_limits(tree_.path(""));
    const auto virtualization = read_virtualization(tree_);
    const auto processes = read_processes(tree_);
    const auto rdma = read_rdma(tree_);
    report_.versions = {{"xoe", options_.version}, {"kernel", processes.kernel}};
    if (wants("cpu")) add(check_cpu(read_cpu(tree_), limits.cpus));
    if (wants("memory")) add(check_memory(read_memory(tree_), limits));
    if (wants("files")) add_files();
    if (wants("process")) add(check_processes(processes, limits));
    if (wants("virtual")) add(check_virtualization(virtualization));
    if (wants("container")) add_container(virtualization.container, limits);
    if (wants("network")) add_network(rdma);
    if (wants("rdma")) add(check_rdma(rdma));
    if (wants("pcie")) add(check_pcie(read_pcie(tree_, virtualization)));
    if (wants("gpu") || wants("xoe")) read_gpus();
    if (wants("gpu"))
      add(check_gpus(gpus_, libraries_, read_gpu_traces(tree_, gpus_), read_gpu_variables(Env::process())));
    if (wants("xoe")) add_installation(rdma);
    if (wants("python")) add_python();
    if (wants_compute()) add_compute();
    if (virtualization.container != "Kubernetes")
      for (Finding& finding : report_.findings) finding.manifest.clear();
    return std::move(report_);
  }

 private:
  bool wants(std::string_view group) const {
    return options_.only.empty() || std::find(options_.only.begin(), options_.only.end(), group) != options_.only.end();
  }
  bool wants_compute() const { return options_.compute || (!options_.only.empty() && wants("compute")); }
  void add(Findings findings) { append(report_.findings, std::move(findings)); }

  void add_container(const std::string& runtime, const CgroupLimits& limits) {
    if (runtime.empty()) {
      if (options_.only.empty()) return;
      return add({{.id = "container.runtime",
                   .severity = Severity::kSkipped,
                   .what = "this is no container",
                   .why = "limits, names and devices of containers and pods"}});
    }
    const auto facts = read_container(tree_, runtime, read_interfaces(tree_), kTryTimeout);
    add(check_container(facts, read_cpu(tree_), read_memory(tree_), limits));
  }

  void add_files() {
    const auto interfaces = read_interfaces(tree_);
    const NetworkInterface* const chosen = chosen_interface(interfaces);
    add(check_mounts(read_mounts(tree_), chosen == nullptr ? std::nullopt : chosen->mbit));
  }

  void add_network(const RdmaFacts& rdma) {
    const auto interfaces = read_interfaces(tree_);
    add(check_network(interfaces));
    add(check_ip_over_infiniband(interfaces, rdma));
    const NetworkInterface* const chosen = chosen_interface(interfaces);
    for (const bool first : {true, false})
      for (const NetworkInterface& card : interfaces)
        if ((&card == chosen) == first && card.up && !card.inner && card.kind != "loopback")
          for (const std::string& address : card.addresses) report_.addresses.push_back({card.name, address});
  }

  void read_gpus() {
    gpus_.asked = tree_.live() || !options_.nvml.empty();
    if (!gpus_.asked) return;
    gpus_ = ask_nvml(options_.nvml.empty() ? "libnvidia-ml.so.1" : options_.nvml, kDriverTimeout);
    libraries_ = ask_cuda_libraries(options_.nccl, kLibraryTimeout);
    if (!gpus_.driver.empty()) {
      report_.versions["driver"] = gpus_.driver;
      report_.versions["cuda"] = cuda_text(gpus_.cuda);
    }
    if (libraries_.nccl > 0) report_.versions["nccl"] = nccl_version_text(libraries_.nccl);
  }

  void add_installation(const RdmaFacts& rdma) {
    InstallationFacts facts{.version = options_.version, .program = options_.program, .tried = tree_.live()};
    facts.rdma = std::ranges::any_of(rdma.ports, &RdmaPort::active);
    if (facts.tried) {
      facts.shared_error = try_sharing(kTryTimeout);
      find_plugins(facts, options_.plugins, kLibraryTimeout);
      report_.engines = loading_engines(facts);
    }
    add(check_installation(facts));
  }

  void add_python() {
    PythonFacts facts{.tried = tree_.live()};
    if (facts.tried) facts = ask_python(Env::process(), kPythonTimeout);
    for (const auto& [name, version] : {std::pair("python", facts.version), std::pair("torch", facts.torch)})
      if (!version.empty()) report_.versions[name] = version;
    add(check_python(facts, options_.version, options_.program));
  }

  void add_compute() {
    if (tree_.live()) return add(check_compute(ask_compute(Env::process(), kComputeTimeout)));
    add({{.id = "compute.python",
          .severity = Severity::kSkipped,
          .what = "nothing multiplied: this is a recorded tree",
          .why = "a recorded tree has no devices"}});
  }

  const ExamineOptions& options_;
  Tree tree_;
  GpuFacts gpus_;
  CudaLibraries libraries_;
  Report report_;
};

}  // namespace

Result<Report> examine(const ExamineOptions& options) {
  XOE_TRY(check_options(options));
  return Examination(options).run();
}

}  // namespace xoe::doctor

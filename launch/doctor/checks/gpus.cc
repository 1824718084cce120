#include "launch/doctor/checks/gpus.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/backend/gpu_transport.h"
#include "core/base/text.h"

namespace xoe::doctor {
namespace {

constexpr int kMismatch = static_cast<int>(NvmlResult::kVersionMismatch);

int major_of(int cuda) { return cuda / 1000; }

// The first number of "550.54.14".
int driver_number(const std::string& driver) {
  return static_cast<int>(parse_integer(driver.substr(0, driver.find('.'))).value_or(0));
}

Finding no_library(const GpuFacts& facts, const GpuTraces& traces) {
  Finding finding{.id = "gpu.driver",
                  .what = "no NVIDIA GPU",
                  .why = "training on GPUs needs NVIDIA's driver: its kernel module and its libraries"};
  finding.details = {{"on_pci", traces.on_pci}, {"loader", facts.absent}};
  if (traces.kernel_module) {
    finding.report(Severity::kProblem,
                   "the driver's kernel module is loaded, but its library cannot be: " + facts.absent,
                   "in a container: docker run --gpus all, with nvidia-container-toolkit on the host; else install the "
                   "driver's libraries of the same version (libnvidia-ml1)");
  } else if (traces.on_pci > 0) {
    finding.report(Severity::kProblem,
                   fmt::format("{} NVIDIA GPU{} on PCI, but no driver{}", traces.on_pci, traces.on_pci == 1 ? "" : "s",
                               traces.nouveau ? " (nouveau, which cannot compute, holds them)" : ""),
                   traces.nouveau
                       ? "blacklist nouveau, install NVIDIA's driver (Debian: apt install nvidia-driver) and reboot"
                       : "install NVIDIA's driver (Debian: apt install nvidia-driver) and reboot");
  }
  return finding;
}

Finding check_driver(const GpuFacts& facts, const GpuTraces& traces) {
  if (!facts.asked)
    return {.id = "gpu.driver",
            .severity = Severity::kSkipped,
            .what = "NVIDIA's library was not asked",
            .why = "it belongs to the running machine, not to the recorded tree",
            .details = {{"on_pci", traces.on_pci}}};
  if (!facts.absent.empty()) return no_library(facts, traces);
  Finding finding{.id = "gpu.driver",
                  .what = fmt::format("driver {}, up to CUDA {}", facts.driver, cuda_text(facts.cuda)),
                  .why = "training on GPUs needs a driver that works"};
  finding.details = {{"driver", facts.driver}, {"cuda", cuda_text(facts.cuda)}, {"error", facts.error}};
  if (facts.error.empty()) return finding;
  finding.report(Severity::kProblem, "the driver does not work: " + facts.error,
                 facts.error_number == kMismatch
                     ? "kernel module and library are of different versions, as after an update: reboot"
                     : "see dmesg | grep -i nvrm; is the module loaded (modprobe nvidia), may /dev/nvidia* be opened? "
                       "Then reboot");
  return finding;
}

Finding check_gpu(const Gpu& gpu, std::size_t index, const GpuTraces& traces) {
  Finding finding{.id = fmt::format("gpu.{}", index),
                  .what = fmt::format("GPU {}: {}, {}{}", index, gpu.name, human_bytes(gpu.memory),
                                      gpu.mig.empty() ? "" : ", MIG " + gpu.mig),
                  .why = "each rank wants a GPU of its own"};
  Json processes = Json::array();
  std::string held;
  for (const GpuProcess& process : gpu.processes) {
    const std::string pid = fmt::format("{} ", process.pid);
    const auto name = std::find_if(traces.names.begin(), traces.names.end(),
                                   [&pid](const std::string& line) { return line.starts_with(pid); });
    processes.push_back({{"pid", process.pid}, {"memory", process.memory}});
    held += fmt::format("{}{}{}", held.empty() ? "" : ", ", name != traces.names.end() ? *name : pid,
                        process.memory > 0 ? " with " + human_bytes(process.memory) : "");
  }
  finding.details = {
      {"index", index},       {"name", gpu.name},        {"uuid", gpu.uuid}, {"pci", gpu.pci},
      {"memory", gpu.memory}, {"used", gpu.memory_used}, {"mig", gpu.mig},   {"processes", std::move(processes)}};
  if (!held.empty()) {
    finding.severity = Severity::kWarning;
    finding.what += "; held by process " + held;
    finding.fix = "wait for them or end them (kill PID); choose other GPUs with CUDA_VISIBLE_DEVICES";
  } else if (gpu.mig.starts_with("on")) {
    finding.severity = Severity::kWarning;
    finding.why =
        "parts of a GPU (MIG) cannot exchange data with each other directly, and NCCL does not join two parts "
        "of one GPU: their ranks go through host memory";
    finding.fix = fmt::format("for training over several GPUs, as root: nvidia-smi -i {} -mig 0", index);
  }
  return finding;
}

Finding check_cuda(const GpuFacts& facts, const CudaLibraries& libraries) {
  Finding finding{.id = "gpu.cuda", .what = "", .why = "a CUDA that is newer than the driver does not start"};
  std::vector<int> majors;
  std::string runtimes;
  for (const int version : libraries.runtimes) {
    majors.push_back(major_of(version));
    runtimes += (runtimes.empty() ? "" : ", ") + cuda_text(version);
  }
  if (!libraries.nccl_cuda.empty())
    majors.push_back(
        static_cast<int>(parse_integer(libraries.nccl_cuda.substr(0, libraries.nccl_cuda.find('.'))).value_or(0)));
  const int newest = majors.empty() ? 0 : *std::max_element(majors.begin(), majors.end());
  finding.details = {{"driver", facts.driver},
                     {"driver_takes", cuda_text(facts.cuda)},
                     {"runtimes", libraries.runtimes},
                     {"nccl_built_with", libraries.nccl_cuda}};
  const int needed = oldest_driver(newest);
  if (newest > 0 && (newest > major_of(facts.cuda) || (needed > 0 && driver_number(facts.driver) < needed))) {
    finding.report(
        Severity::kProblem,
        fmt::format("CUDA {} is installed, but driver {} takes CUDA up to {}", newest, facts.driver,
                    cuda_text(facts.cuda)),
        needed > 0 ? fmt::format("install driver {} or newer, or libraries for CUDA {}", needed, major_of(facts.cuda))
                   : fmt::format("install libraries for CUDA {}", major_of(facts.cuda)));
  } else {
    finding.what =
        fmt::format("driver {} fits CUDA {}", facts.driver,
                    newest == 0        ? cuda_text(facts.cuda) + " and older; no CUDA runtime is in the loader's path"
                    : runtimes.empty() ? fmt::format("{} (of NCCL)", libraries.nccl_cuda)
                                       : runtimes);
  }
  return finding;
}

Finding check_nccl(const GpuFacts& facts, const CudaLibraries& libraries) {
  constexpr int kOldest = 21000;  // ncclAvg, premultiplied sums from 2.11; asynchronous errors and abort before that
  Finding finding{.id = "gpu.nccl",
                  .what = fmt::format("NCCL {}{}", nccl_version_text(libraries.nccl),
                                      libraries.nccl_cuda.empty() ? "" : " for CUDA " + libraries.nccl_cuda),
                  .why = "GPUs exchange gradients through NCCL"};
  finding.details = {{"version", libraries.nccl == 0 ? "" : nccl_version_text(libraries.nccl)},
                     {"cuda", libraries.nccl_cuda},
                     {"path", libraries.nccl_path},
                     {"error", libraries.nccl_error}};
  if (!libraries.nccl_error.empty()) {
    finding.report(
        facts.gpus.size() > 1 ? Severity::kWarning : Severity::kNote, "NCCL cannot be loaded: " + libraries.nccl_error,
        fmt::format("pip install nvidia-nccl-cu{} and put its lib folder into LD_LIBRARY_PATH, or Debian: apt "
                    "install libnccl2",
                    std::max(major_of(facts.cuda), 12)));
  } else if (libraries.nccl < kOldest) {
    finding.advise(Severity::kWarning, "install NCCL 2.10 or newer");
  }
  return finding;
}

// The transport between two ranks, by the ranks' own rule. one_gpu: they share one, or have parts of one.
Result<GpuChoice> transport_of_two(bool one_gpu, const CudaLibraries& libraries, const GpuVariables& variables) {
  constexpr int kManyRanks = 23000;
  std::vector<RankGpu> ranks(2);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const bool missing = !libraries.nccl_error.empty() || libraries.nccl == 0;
    ranks[r] = {.requested = variables.transport,
                .rank = static_cast<int>(r),
                .uuid = one_gpu ? "one" : std::to_string(r),
                .bus = one_gpu ? "one" : std::to_string(r),
                .nccl = missing ? "" : nccl_version_text(libraries.nccl),
                .nccl_shares_gpus = variables.many_ranks && libraries.nccl >= kManyRanks};
  }
  return choose_gpu_transport(ranks);
}

std::string describe(const Result<GpuChoice>& choice) {
  if (!choice) return "an error";
  return choice->transport == GpuTransport::kNccl ? "NCCL" : "staged through pinned host memory";
}

std::string why_not_nccl(const CudaLibraries& libraries, const GpuVariables& variables) {
  if (variables.transport == "staged") return "XOE_GPU=staged or XOE_DETERMINISTIC=placement-free";
  return libraries.nccl == 0 ? "there is no NCCL" : "NCCL refuses a GPU that two ranks have";
}

Finding check_collectives(const GpuFacts& facts, const CudaLibraries& libraries, const GpuVariables& variables) {
  Finding finding{.id = "gpu.collectives",
                  .what = "",
                  .why = "ranks with GPUs of their own reduce in GPU memory; others copy to the host, which reduces"};
  if (variables.transport == "host") {
    finding.report(Severity::kNote, "XOE_GPU=host: Xoe takes no GPU memory, and Python copies tensors",
                   "unset XOE_GPU, unless something is wrong with the other transports");
    finding.details = {{"xoe_gpu", variables.transport}, {"apart", ""}, {"shared", ""}, {"reason", ""}};
    return finding;
  }
  const auto is_parted = [](const Gpu& gpu) { return gpu.mig.starts_with("on"); };
  const bool parted = std::ranges::any_of(facts.gpus, is_parted);
  const auto apart = transport_of_two(false, libraries, variables),
             shared = transport_of_two(true, libraries, variables);
  const bool same = describe(apart) == describe(shared);
  const bool all_nccl =
      apart && shared && apart->transport == GpuTransport::kNccl && shared->transport == GpuTransport::kNccl;
  const std::string reason = all_nccl ? "" : why_not_nccl(libraries, variables);
  finding.what = same ? "collectives of GPU memory: " + describe(apart)
                      : fmt::format("collectives of ranks with a GPU of their own: {}; of ranks that share one{}: {}",
                                    describe(apart), parted ? " or have parts (MIG) of one" : "", describe(shared));
  if (!reason.empty()) finding.what += fmt::format(" ({})", reason);
  if (!all_nccl) finding.fix = "XOE_GPU of the ranks chooses: auto, nccl, staged";
  const auto name = [](const Result<GpuChoice>& choice) {
    return choice ? std::string(gpu_transport_name(choice->transport)) : "error";
  };
  finding.details = {
      {"xoe_gpu", variables.transport}, {"apart", name(apart)}, {"shared", name(shared)}, {"reason", reason}};
  return finding;
}

Finding check_topology(const GpuFacts& facts) {
  Finding finding{
      .id = "gpu.topology",
      .what = fmt::format("ways between {} GPUs", facts.gpus.size()),
      .why =
          "NV#: so many NVLinks; PIX, PXB: over PCI switches; PHB: over a root complex; NODE, SYS: over the "
          "processor, within or between memory nodes"};
  Json matrix = Json::array();
  Json pairs = Json::array();
  Json blocked = Json::array();
  finding.table = fmt::format("{:6}", "");
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) finding.table += fmt::format("{:6}", fmt::format("GPU{}", i));
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) {
    const Gpu& gpu = facts.gpus[i];
    matrix.push_back(gpu.ways);
    finding.table += fmt::format("\n{:6}", fmt::format("GPU{}", i));
    for (std::size_t j = 0; j < gpu.ways.size(); ++j) {
      finding.table += fmt::format("{:6}", gpu.ways[j]);
      if (j > i && gpu.nvlinks[j] > 0) pairs.push_back({{"gpus", {i, j}}, {"links", gpu.nvlinks[j]}});
      if (j > i && !gpu.no_p2p[j].empty()) blocked.push_back({{"gpus", {i, j}}, {"reason", gpu.no_p2p[j]}});
    }
  }
  finding.table += "\n";
  if (!pairs.empty()) finding.what += "; NVLink joins " + counted(std::ssize(pairs), "pair");
  if (!blocked.empty()) {
    finding.severity = Severity::kWarning;
    finding.what += fmt::format("; {} cannot read each other's memory ({})", counted(std::ssize(blocked), "pair"),
                                blocked[0]["reason"].get<std::string>());
    finding.fix = "see the group pcie: ACS and IOMMU keep GPUs from each other; in a virtual machine its variables do";
  }
  finding.details = {{"matrix", std::move(matrix)}, {"nvlink", std::move(pairs)}, {"no_p2p", std::move(blocked)}};
  return finding;
}

}  // namespace

std::string cuda_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// CUDA Toolkit release notes, table of minor version compatibility.
int oldest_driver(int cuda_major) {
  switch (cuda_major) {
    case 13: return 580;
    case 12: return 525;
    case 11: return 450;
    default: return 0;
  }
}

GpuVariables read_gpu_variables(const Env& env) {
  return {.transport = requested_gpu_transport(env),
          .many_ranks = parse_integer(env.text("NCCL_MULTI_RANK_GPU_ENABLE").value_or("0")).value_or(0) != 0};
}

Findings check_gpus(const GpuFacts& facts, const CudaLibraries& libraries, const GpuTraces& traces,
                    const GpuVariables& variables) {
  Findings findings = {check_driver(facts, traces)};
  if (!facts.asked || !facts.absent.empty() || !facts.error.empty()) return findings;
  if (facts.gpus.empty()) {
    findings.push_back({.id = "gpu.count",
                        .severity = Severity::kWarning,
                        .what = "the driver shows no GPU",
                        .why = "the driver works, but no GPU is given to this machine, container or job",
                        .fix = "docker run --gpus all; Slurm: --gres=gpu:N; is CUDA_VISIBLE_DEVICES or MIG in the way?",
                        .manifest = manifest_lines(kOneGpu, "")});
    return findings;
  }
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) findings.push_back(check_gpu(facts.gpus[i], i, traces));
  findings.push_back(check_cuda(facts, libraries));
  findings.push_back(check_nccl(facts, libraries));
  findings.push_back(check_collectives(facts, libraries, variables));
  if (facts.gpus.size() > 1) findings.push_back(check_topology(facts));
  return findings;
}

}  // namespace xoe::doctor

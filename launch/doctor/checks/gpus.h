// GPUs, as the driver sees them, and the libraries that use them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/env.h"
#include "core/drivers/nccl/nccl.h"
#include "core/drivers/nvml/nvml.h"
#include "launch/doctor/facts/tree.h"
#include "launch/doctor/report/finding.h"

namespace xoe::doctor {

struct GpuProcess {
  unsigned pid = 0;
  std::uint64_t memory = 0;
};

struct Gpu {
  std::string name = {};
  std::string uuid = {};
  std::string pci = {};  // as NVML writes it
  std::uint64_t memory = 0;
  std::uint64_t memory_used = 0;
  std::string mig = {};  // "on", "off", "off until the next reset", ...; empty: it has no such mode
  std::vector<GpuProcess> processes = {};
  std::vector<int> nvlinks = {};         // active links to each GPU, in order
  std::vector<std::string> ways = {};    // to each GPU as `nvidia-smi topo -m` names it: "NV4", "PIX", "SYS", "X"
  std::vector<std::string> no_p2p = {};  // for each GPU why it cannot be read directly; empty: it can
};

struct GpuFacts {
  bool asked = true;        // false: NVML was left out
  std::string absent = {};  // why NVML cannot be loaded
  std::string error = {};   // why it does not work
  int error_number = 0;     // of NVML
  std::string driver = {};
  int cuda = 0;  // the newest that the driver takes: 1000 x major + 10 x minor
  std::vector<Gpu> gpus = {};
};

// The libraries of CUDA programs.
struct CudaLibraries {
  std::string nccl_error = {};  // why there is none
  int nccl = 0;                 // 10000 x major + 100 x minor + patch
  std::string nccl_cuda = {};   // it was built with: "13.0"; empty: it does not say
  std::string nccl_path = {};
  std::vector<int> runtimes = {};  // CUDA runtimes that load, as `cuda` above
};

// The user's settings of the transport of GPU memory.
struct GpuVariables {
  std::string transport = "auto";  // XOE_GPU
  bool many_ranks = false;         // NCCL_MULTI_RANK_GPU_ENABLE: NCCL takes a GPU for several ranks, since 2.30
};
GpuVariables read_gpu_variables(const Env& env);

// The traces of GPUs in /proc and /sys, without the driver's library.
struct GpuTraces {
  int on_pci = 0;                       // NVIDIA's display devices
  bool kernel_module = false;           // /proc/driver/nvidia
  bool nouveau = false;                 // the other driver, which cannot compute
  std::vector<std::string> names = {};  // of the processes that hold GPUs: "PID NAME"
};

GpuFacts read_gpus(const NvmlApi& nvml);
// Loads the library and asks it in a process of its own: drivers hang and crash.
GpuFacts ask_nvml(const std::string& library, std::chrono::milliseconds timeout);
CudaLibraries ask_cuda_libraries(const std::string& nccl, std::chrono::milliseconds timeout);
GpuTraces read_gpu_traces(const Tree& tree, const GpuFacts& facts);

Findings check_gpus(const GpuFacts& facts, const CudaLibraries& libraries, const GpuTraces& traces,
                    const GpuVariables& variables = {});

std::string cuda_text(int version);  // "12.4"
// The oldest driver for a CUDA of this major version, by its first number; 0: not known.
int oldest_driver(int cuda_major);

}  // namespace xoe::doctor

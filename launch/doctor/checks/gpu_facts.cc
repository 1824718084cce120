// Reads the GPUs from NVML.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "core/base/text.h"
#include "launch/doctor/checks/gpus.h"
#include "launch/remote/run_in_child.h"

namespace xoe::doctor {

// For the pipe from the process that calls NVML.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuProcess, pid, memory)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Gpu, name, uuid, pci, memory, memory_used, mig, processes, nvlinks, ways, no_p2p)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuFacts, asked, absent, error, error_number, driver, cuda, gpus)

namespace {

constexpr unsigned kMaxGpus = 64;
constexpr unsigned kMaxLinks = 36;
constexpr unsigned kSwitch = 2;      // of nvlink_remote_type
constexpr unsigned kReadAccess = 0;  // of p2p_status

// The library may leave out the final zero.
template <std::size_t size>
std::string text_of(const char (&text)[size]) {
  return {text, ::strnlen(text, size)};
}

std::string mig_text(const NvmlApi& nvml, NvmlDevice device) {
  unsigned now = 0;
  unsigned later = 0;
  if (nvml.mig_mode == nullptr || nvml.mig_mode(device, &now, &later) != NvmlResult::kSuccess) return {};
  const std::string text = now != 0 ? "on" : "off";
  return now == later ? text : text + " until the next reset";
}

std::vector<GpuProcess> processes_of(const NvmlApi& nvml, NvmlDevice device) {
  std::vector<NvmlProcess> list(64);
  if (nvml.compute_processes == nullptr) return {};
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto count = static_cast<unsigned>(list.size());
    const NvmlResult error = nvml.compute_processes(device, &count, list.data());
    if (error == NvmlResult::kInsufficientSize && count <= 65536) {
      list.resize(count + 16);
      continue;
    }
    if (error != NvmlResult::kSuccess) return {};
    std::vector<GpuProcess> processes;
    for (unsigned i = 0; i < std::min<std::size_t>(count, list.size()); ++i)
      processes.push_back({list[i].pid, list[i].memory == ~0ULL ? 0 : list[i].memory});
    return processes;
  }
  return {};
}

Gpu read_gpu(const NvmlApi& nvml, NvmlDevice device) {
  Gpu gpu;
  char text[96] = {};
  if (nvml.name(device, text, sizeof text) == NvmlResult::kSuccess) gpu.name = text_of(text);
  if (nvml.uuid(device, text, sizeof text) == NvmlResult::kSuccess) gpu.uuid = text_of(text);
  NvmlPciInfo pci = {};
  if (nvml.pci_info(device, &pci) == NvmlResult::kSuccess) gpu.pci = text_of(pci.bus_id);
  NvmlMemory memory = {};
  if (nvml.memory_info(device, &memory) == NvmlResult::kSuccess) {
    gpu.memory = memory.total;
    gpu.memory_used = memory.used;
  }
  gpu.mig = mig_text(nvml, device);
  gpu.processes = processes_of(nvml, device);
  return gpu;
}

bool same_bus_id(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// Links of one GPU: to switches, and to each other GPU directly.
struct Links {
  int to_switch = 0;
  std::vector<int> direct;
};

Links links_of(const NvmlApi& nvml, NvmlDevice device, const std::vector<Gpu>& gpus) {
  Links links{.direct = std::vector<int>(gpus.size())};
  if (nvml.nvlink_state == nullptr) return links;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    unsigned active = 0;
    if (nvml.nvlink_state(device, link, &active) != NvmlResult::kSuccess || active == 0) continue;
    unsigned type = 0;
    if (nvml.nvlink_remote_type != nullptr && nvml.nvlink_remote_type(device, link, &type) == NvmlResult::kSuccess &&
        type == kSwitch) {
      ++links.to_switch;
      continue;
    }
    NvmlPciInfo remote = {};
    if (nvml.nvlink_remote == nullptr || nvml.nvlink_remote(device, link, &remote) != NvmlResult::kSuccess) continue;
    for (std::size_t i = 0; i < gpus.size(); ++i)
      if (same_bus_id(text_of(remote.bus_id), gpus[i].pci)) ++links.direct[i];
  }
  return links;
}

// The names of `nvidia-smi topo -m`.
std::string ancestor_text(const NvmlApi& nvml, NvmlDevice a, NvmlDevice b) {
  unsigned level = 0;
  if (nvml.common_ancestor == nullptr || nvml.common_ancestor(a, b, &level) != NvmlResult::kSuccess) return "?";
  switch (level) {
    case 0:  // two GPUs of one board
    case 10: return "PIX";
    case 20: return "PXB";
    case 30: return "PHB";
    case 40: return "NODE";
    case 50: return "SYS";
    default: return "?";
  }
}

std::string p2p_obstacle(const NvmlApi& nvml, NvmlDevice a, NvmlDevice b) {
  static constexpr const char* kReasons[] = {"",
                                             "the chipset does not support it",
                                             "the GPU does not support it",
                                             "the chipset has no topology for it",
                                             "it is turned off by the registry key",
                                             "it is not supported"};
  unsigned status = 0;
  if (nvml.p2p_status == nullptr || nvml.p2p_status(a, b, kReadAccess, &status) != NvmlResult::kSuccess) return {};
  return status < std::size(kReasons) ? kReasons[status] : "unknown reason";
}

void read_ways(const NvmlApi& nvml, const std::vector<NvmlDevice>& devices, std::vector<Gpu>& gpus) {
  std::vector<Links> links;
  links.reserve(devices.size());
  for (const NvmlDevice device : devices) links.push_back(links_of(nvml, device, gpus));
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t j = 0; j < gpus.size(); ++j) {
      const int count = i == j ? 0 : links[i].direct[j] + std::min(links[i].to_switch, links[j].to_switch);
      gpus[i].nvlinks.push_back(count);
      gpus[i].ways.push_back(i == j      ? "X"
                             : count > 0 ? fmt::format("NV{}", count)
                                         : ancestor_text(nvml, devices[i], devices[j]));
      gpus[i].no_p2p.push_back(i == j ? "" : p2p_obstacle(nvml, devices[i], devices[j]));
    }
  }
}

}  // namespace

GpuFacts read_gpus(const NvmlApi& nvml) {
  GpuFacts facts;
  const auto failed = [&](NvmlResult error) {
    if (error == NvmlResult::kSuccess) return false;
    const char* const text = nvml.error_string(error);
    facts.error_number = static_cast<int>(error);
    facts.error = text != nullptr ? text : fmt::format("error {}", facts.error_number);
    return true;
  };
  if (failed(nvml.init())) return facts;
  char driver[96] = {};
  unsigned count = 0;
  if (failed(nvml.driver_version(driver, sizeof driver)) || failed(nvml.cuda_version(&facts.cuda)) ||
      failed(nvml.device_count(&count)))
    return facts;
  facts.driver = text_of(driver);
  std::vector<NvmlDevice> devices;
  for (unsigned i = 0; i < std::min(count, kMaxGpus); ++i) {
    NvmlDevice device = nullptr;
    if (failed(nvml.device_by_index(i, &device))) return facts;
    devices.push_back(device);
    facts.gpus.push_back(read_gpu(nvml, device));
  }
  read_ways(nvml, devices, facts.gpus);
  nvml.shutdown();
  return facts;
}

GpuFacts ask_nvml(const std::string& library, std::chrono::milliseconds timeout) {
  using nlohmann::json;
  const auto answer = remote::run_in_child(
      [&library] {
        GpuFacts facts;
        if (auto nvml = load_nvml(library))
          facts = read_gpus(*nvml);
        else if (nvml.error().code() == Code::kUnavailable)
          facts.absent = nvml.error().message();
        else
          facts.error = nvml.error().message();
        return json(facts).dump(-1, ' ', false, json::error_handler_t::replace);
      },
      timeout);
  GpuFacts facts;
  if (!answer) {
    facts.error = "the driver's library: " + answer.error().message();
    return facts;
  }
  // It is our own process that wrote it; yet a library could have called exit().
  const auto parsed = json::parse(*answer, nullptr, false);
  if (parsed.is_object())
    parsed.get_to(facts);
  else
    facts.error = "the driver's library ended the process that asked it";
  return facts;
}

GpuTraces read_gpu_traces(const Tree& tree, const GpuFacts& facts) {
  GpuTraces traces;
  for (const std::string& address : tree.names("/sys/bus/pci/devices")) {
    const std::string folder = "/sys/bus/pci/devices/" + address + "/";
    if (tree.line(folder + "vendor") == "0x10de" && tree.line(folder + "class").starts_with("0x03")) ++traces.on_pci;
  }
  traces.kernel_module = tree.has("/proc/driver/nvidia/version");
  traces.nouveau = tree.has("/sys/module/nouveau");
  for (const Gpu& gpu : facts.gpus) {
    for (const GpuProcess& process : gpu.processes) {
      const std::string name = tree.line(fmt::format("/proc/{}/comm", process.pid));
      traces.names.push_back(fmt::format("{} {}", process.pid, name.empty() ? "(not visible here)" : name));
    }
  }
  return traces;
}

}  // namespace xoe::doctor

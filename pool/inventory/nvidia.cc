// NVIDIA's GPUs and MIG instances from NVML.
#include <algorithm>
#include <cctype>
#include <cstring>

#include "core/base/error.h"
#include "pool/inventory/inventory.h"

namespace xoe::pool {
namespace {

constexpr unsigned kMaxLinks = 36;  // of a GPU
constexpr unsigned kMaxProcesses = 65536;
constexpr unsigned kSwitch = 2;  // of nvlink_remote_type
constexpr unsigned kCoreTemperature = 0;

// The library may leave out the final zero.
template <std::size_t size>
std::string text_of(const char (&text)[size]) {
  return {text, ::strnlen(text, size)};
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// nullopt: the driver does not list them.
std::optional<std::vector<GpuProcess>> processes_of(const NvmlApi& nvml, NvmlDevice device) {
  std::vector<NvmlProcess> list(64);
  if (nvml.compute_processes == nullptr) return std::nullopt;
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto count = static_cast<unsigned>(list.size());
    const NvmlResult result = nvml.compute_processes(device, &count, list.data());
    if (result == NvmlResult::kInsufficientSize && count <= kMaxProcesses) {
      list.resize(count + 16);
      continue;
    }
    if (result != NvmlResult::kSuccess) return std::nullopt;
    std::vector<GpuProcess> processes;
    for (unsigned i = 0; i < std::min<std::size_t>(count, list.size()); ++i)
      processes.push_back({.pid = list[i].pid, .memory = list[i].memory == ~0ULL ? 0 : list[i].memory});
    return processes;
  }
  return std::nullopt;
}

GpuActivity activity_of(const NvmlApi& nvml, NvmlDevice device) {
  GpuActivity activity;
  if (NvmlMemory memory = {}; nvml.memory_info(device, &memory) == NvmlResult::kSuccess)
    activity.memory_used = memory.used;
  NvmlUtilization use = {};
  const bool known = nvml.utilization != nullptr && nvml.utilization(device, &use) == NvmlResult::kSuccess;
  activity.utilisation = known ? std::optional(static_cast<int>(std::min(use.gpu, 100U))) : std::nullopt;
  unsigned degrees = 0;
  if (nvml.temperature != nullptr && nvml.temperature(device, kCoreTemperature, &degrees) == NvmlResult::kSuccess)
    activity.temperature = static_cast<int>(degrees);
  auto processes = processes_of(nvml, device);
  activity.processes_known = processes.has_value();
  if (processes) activity.processes = std::move(*processes);
  return activity;
}

Gpu facts_of(const NvmlApi& nvml, NvmlDevice device, const std::string& host) {
  Gpu gpu{.host = host};
  char text[96] = {};
  if (nvml.uuid(device, text, sizeof text) == NvmlResult::kSuccess) gpu.uuid = text_of(text);
  if (nvml.name(device, text, sizeof text) == NvmlResult::kSuccess) gpu.name = text_of(text);
  if (NvmlPciInfo pci = {}; nvml.pci_info(device, &pci) == NvmlResult::kSuccess) gpu.pci = text_of(pci.bus_id);
  if (NvmlMemory memory = {}; nvml.memory_info(device, &memory) == NvmlResult::kSuccess) gpu.memory = memory.total;
  return gpu;
}

// The PCI addresses that the active NVLinks of a device lead to, and whether one leads to a switch.
struct Links {
  std::vector<std::string> peers;
  bool to_switch = false;
};

Links links_of(const NvmlApi& nvml, NvmlDevice device) {
  Links links;
  if (nvml.nvlink_state == nullptr) return links;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    unsigned active = 0;
    if (nvml.nvlink_state(device, link, &active) != NvmlResult::kSuccess) break;
    if (active == 0) continue;
    unsigned type = 0;
    if (nvml.nvlink_remote_type != nullptr && nvml.nvlink_remote_type(device, link, &type) == NvmlResult::kSuccess &&
        type == kSwitch)
      links.to_switch = true;
    NvmlPciInfo peer = {};
    if (nvml.nvlink_remote != nullptr && nvml.nvlink_remote(device, link, &peer) == NvmlResult::kSuccess)
      links.peers.push_back(lower(text_of(peer.bus_id)));
  }
  return links;
}

class NvidiaGpus : public GpuVendor {
 public:
  explicit NvidiaGpus(std::string library) : library_(std::move(library)) {}
  explicit NvidiaGpus(const NvmlApi& api) : api_(api) {}

  Status add_to(HostReport& report) override {
    if (!api_) {
      XOE_ASSIGN(api_, load_nvml(library_));
    }
    // A session for each call: one that is kept does not see a driver that was reloaded.
    if (const NvmlResult error = api_->init(); error != NvmlResult::kSuccess)
      return failure(Code::kUnavailable, "NVML does not start: {}", api_->error_string(error));
    const Status added = add_devices(report);
    api_->shutdown();
    return added;
  }

 private:
  Status add_devices(HostReport& report) {
    unsigned count = 0;
    if (const NvmlResult error = api_->device_count(&count); error != NvmlResult::kSuccess)
      return failure(Code::kUnavailable, "NVML does not count its GPUs: {}", api_->error_string(error));
    const std::size_t first = report.gpus.size();
    std::vector<Links> links;
    count = reported_of(count, "GPUs of NVIDIA", report);
    for (unsigned index = 0; index < count; ++index)
      if (const Status added = add_device(report, index, links); !added)
        report.add_problem(fmt::format("GPU {} of NVIDIA is left out: {}", index, added.error().message()));
    for (std::size_t i = first; i < report.gpus.size(); ++i)
      for (std::size_t j = first; j < report.gpus.size(); ++j)
        if (i != j && are_linked(links[i - first], links[j - first], report.gpus[j]))
          report.gpus[i].nvlinks.push_back(report.gpus[j].uuid);
    return {};
  }

  // An error: it does not tell now what must be known of it.
  Status add_device(HostReport& report, unsigned index, std::vector<Links>& links) {
    NvmlDevice device = nullptr;
    if (const NvmlResult error = api_->device_by_index(index, &device); error != NvmlResult::kSuccess)
      return failure(Code::kUnavailable, "it does not answer: {}", api_->error_string(error));
    Gpu gpu = facts_of(*api_, device, report.host);
    if (gpu.uuid.empty()) return failure(Code::kUnavailable, "{}", "it does not tell its UUID");
    XOE_ASSIGN(const bool has_instances, is_in_mig_mode(device));
    if (has_instances) return add_instances(report, device, gpu, links);
    report.gpus.push_back(std::move(gpu));
    report.activity.push_back(activity_of(*api_, device));
    links.push_back(links_of(*api_, device));
    return {};
  }

  // A GPU in that mode is given away in instances, and must not be given away as a whole.
  Result<bool> is_in_mig_mode(NvmlDevice device) {
    if (api_->mig_mode == nullptr) return false;
    unsigned on = 0;
    unsigned later = 0;
    const NvmlResult result = api_->mig_mode(device, &on, &later);
    if (result == NvmlResult::kSuccess) return on != 0;
    if (result == NvmlResult::kNotSupported || result == NvmlResult::kFunctionNotFound) return false;
    return failure(Code::kUnavailable, "it does not tell whether it is in MIG mode: {}", api_->error_string(result));
  }

  Status add_instances(HostReport& report, NvmlDevice device, const Gpu& whole, std::vector<Links>& links) {
    unsigned most = 0;
    if (api_->max_mig_devices == nullptr || api_->mig_device == nullptr)
      return failure(Code::kUnavailable, "{}", "it is in MIG mode, and this NVML does not tell of instances");
    if (const NvmlResult error = api_->max_mig_devices(device, &most); error != NvmlResult::kSuccess)
      return failure(Code::kUnavailable, "it does not count its MIG instances: {}", api_->error_string(error));
    most = reported_of(most, "MIG instances of a GPU", report);
    for (unsigned index = 0; index < most; ++index) {
      NvmlDevice instance = nullptr;
      const NvmlResult result = api_->mig_device(device, index, &instance);
      if (result == NvmlResult::kNotFound || result == NvmlResult::kInvalidArgument) continue;  // there is none
      Gpu gpu = result == NvmlResult::kSuccess ? facts_of(*api_, instance, report.host) : Gpu();
      if (gpu.uuid.empty()) {
        report.add_problem(fmt::format("MIG instance {} of {} is left out: it does not answer", index, whole.uuid));
        continue;
      }
      if (gpu.name.empty()) gpu.name = whole.name;
      gpu.pci = whole.pci;
      report.gpus.push_back(std::move(gpu));
      report.activity.push_back(activity_of(*api_, instance));
      links.emplace_back();
    }
    return {};
  }

  static bool are_linked(const Links& from, const Links& to, const Gpu& other) {
    if (from.to_switch && to.to_switch) return true;
    return std::ranges::find(from.peers, lower(other.pci)) != from.peers.end();
  }

  std::string library_;
  std::optional<NvmlApi> api_;
};

}  // namespace

std::unique_ptr<GpuVendor> nvidia_gpus(std::string library) { return std::make_unique<NvidiaGpus>(std::move(library)); }
std::unique_ptr<GpuVendor> nvidia_gpus(const NvmlApi& api) { return std::make_unique<NvidiaGpus>(api); }

}  // namespace xoe::pool

// AMD's GPUs from ROCm SMI.
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "pool/inventory/inventory.h"

namespace xoe::pool {
namespace {

constexpr std::uint32_t kMostRocmProcesses = 65536;
constexpr int kVram = 0;
constexpr std::uint32_t kEdge = 0;  // the sensor
constexpr int kCurrent = 0;
constexpr std::uint32_t kXgmi = 2;

constexpr RocmResult kGood = RocmResult::kSuccess;

class AmdGpus : public GpuVendor {
 public:
  explicit AmdGpus(std::string library) : library_(std::move(library)) {}

  Status add_to(HostReport& report) override {
    if (!api_) {
      XOE_ASSIGN(api_, load_rocm_smi(library_));
    }
    // A session for each call, as with NVIDIA's library.
    if (api_->init(0) != kGood) return failure(Code::kUnavailable, "ROCm SMI does not start");
    Status added = add_devices(report);
    api_->shutdown();
    return added;
  }

 private:
  Status add_devices(HostReport& report) {
    std::uint32_t count = 0;
    if (api_->device_count(&count) != kGood) return failure(Code::kUnavailable, "ROCm SMI does not count its GPUs");
    const std::size_t first = report.gpus.size();
    std::vector<std::uint32_t> devices;
    count = reported_of(count, "GPUs of AMD", report);
    for (std::uint32_t device = 0; device < count; ++device) {
      Gpu gpu = facts_of(device, report.host);
      if (gpu.uuid.empty()) {
        report.add_problem(fmt::format("GPU {} of AMD is left out: it does not tell its unique id", device));
        continue;
      }
      report.gpus.push_back(std::move(gpu));
      report.activity.push_back(activity_of(device));
      devices.push_back(device);
    }
    add_processes(report, first, devices);
    for (std::size_t i = 0; i < devices.size(); ++i)
      for (std::size_t j = 0; j < devices.size(); ++j)
        if (i != j && are_linked(devices[i], devices[j]))
          report.gpus[first + i].nvlinks.push_back(report.gpus[first + j].uuid);
    return {};
  }

  // The name that ROCR_VISIBLE_DEVICES understands: "GPU-" and 16 hexadecimal digits.
  Gpu facts_of(std::uint32_t device, const std::string& host) const {
    Gpu gpu{.host = host};
    std::uint64_t id = 0;
    if (api_->unique_id(device, &id) == kGood && id != 0) gpu.uuid = fmt::format("GPU-{:016x}", id);
    char name[128] = {};
    if (api_->name(device, name, sizeof name) == kGood) gpu.name.assign(name, ::strnlen(name, sizeof name));
    std::uint64_t pci = 0;
    if (api_->pci_id(device, &pci) == kGood)
      gpu.pci = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci >> 32, pci >> 8 & 0xff, pci >> 3 & 0x1f, pci & 7);
    api_->memory_total(device, kVram, &gpu.memory);
    return gpu;
  }

  GpuActivity activity_of(std::uint32_t device) const {
    GpuActivity activity{.utilisation = std::nullopt, .processes_known = false};
    std::uint32_t percent = 0;
    if (api_->busy_percent != nullptr && api_->busy_percent(device, &percent) == kGood)
      activity.utilisation = static_cast<int>(std::min(percent, 100U));
    std::int64_t millidegrees = 0;
    if (api_->temperature != nullptr && api_->temperature(device, kEdge, kCurrent, &millidegrees) == kGood)
      activity.temperature = static_cast<int>(std::clamp<std::int64_t>(millidegrees / 1000, -273, 999));
    std::uint64_t used = 0;
    if (api_->memory_used(device, kVram, &used) == kGood) activity.memory_used = used;
    return activity;
  }

  void add_processes(HostReport& report, std::size_t first, const std::vector<std::uint32_t>& devices) const {
    std::uint32_t count = 0;
    if (api_->processes == nullptr || api_->process_devices == nullptr || api_->processes(nullptr, &count) != kGood)
      return;
    std::vector<RocmProcess> list(std::min(count + 16, kMostRocmProcesses));  // more may have started since
    count = static_cast<std::uint32_t>(list.size());
    if (api_->processes(list.data(), &count) != kGood) return;
    const bool are_all = count <= list.size();
    list.resize(std::min<std::size_t>(count, list.size()));
    for (std::size_t i = 0; i < devices.size(); ++i) report.activity[first + i].processes_known = are_all;
    for (const RocmProcess& process : list) {
      std::uint32_t on[kMaxHostGpus] = {};
      std::uint32_t some = kMaxHostGpus;
      if (api_->process_devices(process.pid, on, &some) != kGood) {
        // One that goes on may be on any of them.
        const bool has_ended = ::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH;
        for (std::size_t i = 0; i < devices.size() && !has_ended; ++i)
          report.activity[first + i].processes_known = false;
        continue;
      }
      some = std::min(some, kMaxHostGpus);
      for (std::size_t i = 0; i < devices.size(); ++i)
        if (std::find(on, on + some, devices[i]) != on + some)
          // The library tells the memory on all of its GPUs together.
          report.activity[first + i].processes.push_back(
              {.pid = process.pid, .memory = some == 1 ? process.memory : 0});
    }
  }

  bool are_linked(std::uint32_t from, std::uint32_t to) const {
    std::uint64_t hops = 0;
    std::uint32_t type = 0;
    return api_->link_type != nullptr && api_->link_type(from, to, &hops, &type) == kGood && type == kXgmi;
  }

  std::string library_;
  std::optional<RocmSmiApi> api_;
};

}  // namespace

std::unique_ptr<GpuVendor> amd_gpus(std::string library) { return std::make_unique<AmdGpus>(std::move(library)); }

}  // namespace xoe::pool

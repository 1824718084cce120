// The GPUs of this host: behind one interface for all vendors.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/drivers/nvml/nvml.h"
#include "core/drivers/rocm/rocm_smi.h"
#include "pool/model/state.h"
#include "xoe/status.h"

namespace xoe::pool {

inline constexpr unsigned kMaxHostGpus = 64;  // of one vendor that a host reports

// The number of those that are reported; where there are more, the report says so.
unsigned reported_of(unsigned count, std::string_view what, HostReport& report);

// One vendor's GPUs of this host. One thread at a time.
class GpuVendor {
 public:
  virtual ~GpuVendor() = default;
  // Adds the GPUs as they are now, with what their processes do. An error says why there are none: the driver is not
  // there (yet), or does not answer.
  virtual Status add_to(HostReport& report) = 0;
};

// NVIDIA's, through its management library. The library is loaded when it is first needed and found, so a driver that
// is installed later shows at the next call.
std::unique_ptr<GpuVendor> nvidia_gpus(std::string library);
// The same on a table of functions.
std::unique_ptr<GpuVendor> nvidia_gpus(const NvmlApi& api);

// AMD's, through ROCm SMI; the same holds. Their names are those of ROCR_VISIBLE_DEVICES.
std::unique_ptr<GpuVendor> amd_gpus(std::string library);

// Reads all of this host's GPUs again and again.
class Inventory {
 public:
  Inventory(std::string host, std::vector<std::unique_ptr<GpuVendor>> vendors)
      : host_(std::move(host)), vendors_(std::move(vendors)) {}

  // A host without any is fine: HostReport::without says why. Processes get their user and what they use of the CPUs
  // since the last call.
  HostReport report();

 private:
  struct CpuTime {
    Span used{0};
    std::chrono::steady_clock::time_point at = {};
  };
  void add_processes(GpuActivity& activity);

  std::string host_;
  std::vector<std::unique_ptr<GpuVendor>> vendors_;
  std::map<std::int64_t, CpuTime> before_;  // by process
  std::map<std::int64_t, CpuTime> now_;
};

// The name of the user that a process of this host belongs to; empty: there is no such process.
std::string user_of_process(std::int64_t pid);

}  // namespace xoe::pool

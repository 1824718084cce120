#include "doctor/nvml.h"

#include <dlfcn.h>

#include "base/error.h"

namespace xoe::doctor {
namespace {

// Takes the functions of one library, and keeps the name of the first one that was missing.
class Functions {
 public:
  explicit Functions(void* library) : library_(library) {}

  template <class F>
  void must(F*& function, const char* name) {
    may(function, name);
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  template <class F>
  void may(F*& function, const char* name) {
    function = reinterpret_cast<F*>(::dlsym(library_, name));
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

}  // namespace

Result<Nvml> load_nvml(const std::string& library) {
  // Never closed: its threads may go on.
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return failure(Code::kUnavailable, "{}", ::dlerror());
  Functions functions(handle);
  Nvml nvml;
  functions.must(nvml.init, "nvmlInit_v2");
  functions.must(nvml.shutdown, "nvmlShutdown");
  functions.must(nvml.error_text, "nvmlErrorString");
  functions.must(nvml.driver_version, "nvmlSystemGetDriverVersion");
  functions.must(nvml.cuda_version, "nvmlSystemGetCudaDriverVersion_v2");
  functions.must(nvml.device_count, "nvmlDeviceGetCount_v2");
  functions.must(nvml.device, "nvmlDeviceGetHandleByIndex_v2");
  functions.must(nvml.name, "nvmlDeviceGetName");
  functions.must(nvml.uuid, "nvmlDeviceGetUUID");
  functions.must(nvml.pci, "nvmlDeviceGetPciInfo_v3");
  functions.must(nvml.memory, "nvmlDeviceGetMemoryInfo");
  functions.may(nvml.mig_mode, "nvmlDeviceGetMigMode");
  functions.may(nvml.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  functions.may(nvml.nvlink_state, "nvmlDeviceGetNvLinkState");
  functions.may(nvml.nvlink_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  functions.may(nvml.nvlink_remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType");
  functions.may(nvml.common_ancestor, "nvmlDeviceGetTopologyCommonAncestor");
  functions.may(nvml.p2p_status, "nvmlDeviceGetP2PStatus");
  if (!functions.missing().empty())
    return failure(Code::kUnsupported, "{} has no function {}: the driver is too old", library, functions.missing());
  return nvml;
}

}  // namespace xoe::doctor

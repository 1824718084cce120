// A cgroup whose processes can open the device files of certain GPUs only: the kernel refuses the others, whatever a
// program puts into CUDA_VISIBLE_DEVICES. Needs root and cgroup v2.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::pool {

// Where the kernel and the driver say what; tests give their own.
struct DevicePlaces {
  std::string gpus = "/proc/driver/nvidia/gpus";  // a folder for each GPU, with a file `information`
  std::string mounts = "/proc/self/mounts";
  std::string own_group = "/proc/self/cgroup";
  unsigned major = 195;         // of /dev/nvidia0, /dev/nvidia1, ...
  unsigned first_shared = 254;  // minor numbers from here on belong to no GPU: /dev/nvidiactl
};

class DeviceRule {
 public:
  // Makes the cgroup `name` below this process's own. `unsupported`: there is no cgroup v2, or GPUs are MIG instances,
  // which share a device file. `unavailable`: this needs root.
  static Result<DeviceRule> create(const std::string& name, const std::vector<std::string>& uuids,
                                   DevicePlaces places = {});
  DeviceRule(DeviceRule&& other) noexcept;
  DeviceRule& operator=(DeviceRule&&) = delete;
  // Kills what still runs in it, and removes it.
  ~DeviceRule();

  // Replaces the list of GPUs. A file that is open already stays open.
  Status allow(const std::vector<std::string>& uuids);
  const std::string& folder() const noexcept { return folder_; }
  // Puts this process into it; what it starts is in it, too.
  Status enter() const;

 private:
  explicit DeviceRule(DevicePlaces places) : places_(std::move(places)) {}

  DevicePlaces places_;
  std::string folder_;  // empty: moved from
  Fd group_;
  Fd program_;
};

// Kills what runs in a cgroup of create(), and removes it, if it is there: for one whose owner was killed.
void remove_device_rule(const std::string& name, const DevicePlaces& places = {});

}  // namespace xoe::pool

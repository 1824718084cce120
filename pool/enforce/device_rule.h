// A cgroup whose processes can open the device files of certain GPUs only: the kernel refuses the others, whatever a
// program puts into CUDA_VISIBLE_DEVICES. Needs root and cgroup v2.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/fd.h"
#include "pool/enforce/device_places.h"
#include "xoe/status.h"

namespace xoe::pool {

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

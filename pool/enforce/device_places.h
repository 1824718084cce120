// Where the kernel and NVIDIA's driver say what, and where the device files of GPUs are.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace xoe::pool {

struct DevicePlaces {
  std::string gpus = "/proc/driver/nvidia/gpus";  // a folder for each GPU, with a file `information`
  std::string parameters = "/proc/driver/nvidia/params";
  std::string devices = "/dev";
  std::string mounts = "/proc/self/mounts";
  std::string own_group = "/proc/self/cgroup";
  std::string kept = "/run/xoe-pool-device-files";  // how device files were before an agent changed them
  unsigned major = 195;                             // of /dev/nvidia0, /dev/nvidia1, ...
  unsigned first_shared = 254;                      // minor numbers from here on belong to no GPU: /dev/nvidiactl
};

// The places of a host whose root is at `root`, as a container has them.
DevicePlaces places_below(const std::string& root);

// The minor numbers of the GPUs' device files.
struct DeviceMinors {
  std::map<std::string, unsigned> by_uuid = {};
  std::map<std::string, unsigned> by_pci = {};  // as of short_pci()
};
DeviceMinors device_minors(const DevicePlaces& places);

// NVML writes more zeros before a PCI address than the kernel: "0000:3b:00.0" of both.
std::string short_pci(std::string_view pci);

}  // namespace xoe::pool

// Who may open the device files of GPUs: root and those who hold them, by an access control list. Of a GPU without a
// lease only root may. Files that are open already stay open. Needs root.
//
// The instances of a GPU in MIG mode share its device file, so that each holder of one may open it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pool/enforce/device_places.h"
#include "xoe/status.h"

namespace xoe::pool {

// A GPU or MIG instance, and the names of its holders, who are users of this host.
struct GpuHolders {
  std::string uuid = {};
  std::string pci = {};
  std::set<std::string> users = {};
};

// A user's number. nullopt: this host has no such user; an error: the system does not tell now, as where the server of
// its directory is away.
using UserId = std::function<Result<std::optional<uid_t>>(const std::string& name)>;
Result<std::optional<uid_t>> system_user_id(const std::string& name);

// Of one process at a time.
class DeviceFiles {
 public:
  // `invalid_argument`: this needs root. `unsupported`: the driver lets every user set the files back
  // (ModifyDeviceFiles). `data_loss`: what a former agent kept cannot be read.
  static Result<DeviceFiles> open(DevicePlaces places, UserId user_id = system_user_id);
  DeviceFiles(DeviceFiles&&) noexcept = default;
  DeviceFiles& operator=(DeviceFiles&&) = delete;
  // Makes them what they were before the first change, also where that was another agent's, which was killed.
  ~DeviceFiles();

  struct Allowed {
    std::map<std::string, std::set<std::string>> users = {};  // by UUID; a GPU without a device file is left out
    std::vector<std::string> problems = {};
  };
  // For all GPUs of this host. A holder whose number is not told now has the one that was told before.
  Allowed allow(const std::vector<GpuHolders>& gpus);

 private:
  struct Access {
    uid_t owner = 0;
    gid_t group = 0;
    mode_t mode = 0;
    std::string list = {};  // as the kernel has it; empty: none
    bool operator==(const Access&) const = default;
  };
  DeviceFiles(DevicePlaces places, UserId user_id) : places_(std::move(places)), user_id_(std::move(user_id)) {}
  static Result<Access> access_of(const std::string& file);
  static Status set_access(const std::string& file, const Access& access);
  Result<uid_t> id_of(const std::string& holder);
  void forget_ids(const std::vector<GpuHolders>& gpus);
  Status restrict_to(const std::string& file, const std::set<uid_t>& users);
  Status read_kept();
  Status write_kept() const;

  DevicePlaces places_;
  UserId user_id_;
  std::map<std::string, uid_t> ids_;      // of holders, as they were told last
  std::map<std::string, Access> before_;  // by file
};

}  // namespace xoe::pool

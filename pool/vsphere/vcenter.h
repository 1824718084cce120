// A vCenter: which GPUs its hosts have, which VMs have them, and the changes that a pool makes.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pool/model/time.h"
#include "pool/vsphere/soap.h"
#include "pool/vsphere/transport.h"

namespace xoe::pool::vsphere {

struct HostGpu {
  std::string pci = {};      // "0000:3b:00.0"
  std::string name = {};     // "Tesla T4"
  std::uint64_t memory = 0;  // bytes; 0: not told
  bool shared = false;       // for vGPUs; else for DirectPath I/O
  bool enabled = true;       // for DirectPath I/O on its host, and the host has been started again since
};

struct EsxiHost {
  Reference object = {};
  std::string name = {};
  std::vector<HostGpu> gpus = {};
  bool gpus_known = true;                       // false: vCenter does not tell its devices now
  std::vector<std::string> vgpu_profiles = {};  // "grid_t4-8q"
};

// A passthrough device of a VM.
struct VmDevice {
  int key = 0;
  std::string pci = {};      // of DirectPath I/O; empty: Dynamic DirectPath that has no device now, or a vGPU
  std::string profile = {};  // of a vGPU
};

struct VirtualMachine {
  Reference object = {};
  std::string name = {};
  Reference host = {};
  bool running = false;       // or suspended: not off
  bool has_reserved = false;  // all of its memory, which passthrough needs
  std::vector<VmDevice> devices = {};
  bool devices_known = true;  // false: vCenter does not tell them now, as where its datastore is away
};

struct Inventory {
  std::vector<EsxiHost> hosts = {};
  std::vector<VirtualMachine> vms = {};
};

// From the objects of RetrievePropertiesEx. Whatever is not understood is left out.
Inventory inventory_of(const std::vector<Element>& objects);
// The devices of VMs that are not told now are those of `before`.
void keep_devices(Inventory& inventory, const Inventory& before);

struct Credentials {
  std::string user = {};
  std::string password = {};
};

// The change of one VM.
struct Change {
  std::set<std::string> add_pci = {};
  std::vector<std::string> add_profiles = {};
  std::set<int> remove_keys = {};

  bool empty() const { return add_pci.empty() && add_profiles.empty() && remove_keys.empty(); }
};

// Of one thread. A session that has expired is opened again; it ends with the object. Errors of a call: `unavailable`,
// vCenter does not answer; `resource_exhausted`, it refuses, and the message has its reason; `invalid_argument`, it
// does not know the user or the password, and trying again could lock the account; `timeout`, a task or a shutdown took
// too long and may still end.
class Vcenter {
 public:
  using Sleep = std::function<void(Span)>;

  static Result<Vcenter> open(std::unique_ptr<Transport> transport, Credentials credentials, Sleep sleep);
  Vcenter(Vcenter&&) noexcept = default;
  Vcenter& operator=(Vcenter&&) = delete;
  ~Vcenter();

  Result<Inventory> look();
  // The VM must be off.
  Status change(const VirtualMachine& vm, const Change& change);
  Status power_on(const VirtualMachine& vm);
  // Asks its guest to shut down and waits until it is off; it is never powered off hard.
  Status shut_down(const VirtualMachine& vm, Span timeout);
  void set_task_timeout(Span timeout) { task_timeout_ = timeout; }

 private:
  Vcenter(std::unique_ptr<Transport> transport, Credentials credentials, Sleep sleep)
      : transport_(std::move(transport)), credentials_(std::move(credentials)), sleep_(std::move(sleep)) {}

  Result<Answer> send(const std::string& request);
  Status log_in();
  Result<Element> call(std::string_view method, const Reference& object, const std::string& arguments = {});
  Result<std::vector<Element>> retrieve(const std::string& spec);
  Result<Element> property(const Reference& object, std::string_view path);
  Status run_task(std::string_view method, const VirtualMachine& vm, const std::string& arguments = {});
  Result<std::string> added_devices(const VirtualMachine& vm, const Change& change);

  std::unique_ptr<Transport> transport_;
  Credentials credentials_;
  Sleep sleep_;
  Span task_timeout_ = std::chrono::minutes(5);
  Reference properties_, views_, root_, sessions_;
};

}  // namespace xoe::pool::vsphere

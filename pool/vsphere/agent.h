// The reconciler of a vCenter: it tells the pool what its hosts and VMs have, and makes the VMs have what their leases
// say.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pool/model/state.h"
#include "pool/vsphere/vcenter.h"

namespace xoe::pool::vsphere {

struct Rules {
  std::set<std::string> vms = {};  // only these; empty: all
  // By VM: who may have leases for it, as Vm::users has them; "*": those of VMs that are not named.
  std::map<std::string, std::vector<std::string>> users = {};
  std::string vgpu_profile = {};  // that shared GPUs are cut by; empty: they are left out
  bool power_cycle = false;       // VMs may be shut down and started again
  Span shutdown_timeout = std::chrono::minutes(5);
};

// GPUs of a vCenter by the names that the pool knows them by: "vsphere:HOST:0000:3b:00.0" of one for DirectPath I/O,
// and "vsphere:HOST:0000:3b:00.0#1" of a vGPU. vCenter does not tell which GPU a vGPU is on, so that a vGPU of a VM is
// any of the profile's.
struct Reports {
  std::vector<HostReport> hosts = {};
  std::vector<std::string> warnings = {};  // what was left out, and why
};
Reports reports_of(const Inventory& inventory, const Rules& rules, const std::vector<VmAssignment>& assignments,
                   const std::map<std::string, std::string>& problems);

// What has to be done to one VM.
struct Step {
  VirtualMachine vm = {};
  Change change = {};
  bool power_cycle = false;
  std::vector<std::int64_t> leases = {};  // that say so
  std::vector<std::string> gpus = {};     // that the VM shall have in the end
  std::string blocked = {};               // why it cannot be done; empty: it can
};
// VMs that only give back come first, so that others find what is free.
std::vector<Step> steps_to(const Inventory& inventory, const Rules& rules,
                           const std::vector<VmAssignment>& assignments);

class Agent {
 public:
  Agent(Vcenter vcenter, Rules rules) : vcenter_(std::move(vcenter)), rules_(std::move(rules)) {}

  // After an error of observe(): what it has shut down is still to be started.
  void reconnect(Vcenter vcenter) { vcenter_.emplace(std::move(vcenter)); }
  // A report for each host. Errors are those of Vcenter.
  Result<Reports> observe();
  // Makes the VMs that were observed have what they should. What cannot be done is in the next report, as the problem
  // of its VM; returns lines for a log. `unknown`: hosts of which the pool told nothing, because it refused their
  // reports: their VMs keep what they have.
  std::vector<std::string> apply(const std::vector<VmAssignment>& assignments,
                                 const std::set<std::string>& unknown = {});

 private:
  void take(const std::vector<VmAssignment>& assignments, const std::set<std::string>& unknown);
  void forget_what_is_over();
  Status carry_out(const Step& step);
  Status cycle(const Step& step);

  std::optional<Vcenter> vcenter_;
  Rules rules_;
  Inventory inventory_;
  std::vector<VmAssignment> assignments_;
  std::map<std::string, std::string> problems_;  // by VM
  struct Failure {
    std::vector<std::int64_t> leases = {};
    std::vector<std::string> gpus = {};
    std::string why = {};
  };
  std::map<std::string, Failure> given_up_;  // by VM: what a power cycle failed to give, until the leases change
  std::set<Reference> to_start_;             // VMs that it has shut down, until they run
};

}  // namespace xoe::pool::vsphere

#include "pool/core/targets.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::pool {
namespace {

bool has(const Vm& vm, const std::string& gpu) { return std::ranges::find(vm.gpus, gpu) != vm.gpus.end(); }

// GPUs that open leases have for a VM, and which it does not have yet.
int pending_devices(const State& state, const Vm& vm) {
  std::ptrdiff_t count = 0;
  for (const auto& [id, lease] : state.leases)
    if (lease.is_open() && lease.request.vm == vm.name)
      count += std::ranges::count_if(lease.gpus, [&](const std::string& gpu) { return !has(vm, gpu); });
  return static_cast<int>(count);
}

}  // namespace

bool may_use(const User& user, const Vm& vm) {
  return vm.users.empty() || user.role == Role::kAdmin || std::ranges::any_of(vm.users, [&](const std::string& name) {
           return name == user.name || (!user.team.empty() && name == "@" + user.team);
         });
}

std::vector<std::int64_t> forbidden_waits(const State& state) {
  std::vector<std::int64_t> forbidden;
  for (const auto& [id, lease] : state.leases) {
    const auto vm = state.vms.find(lease.request.vm);
    const auto user = state.users.find(lease.user);
    if (lease.is_waiting() && vm != state.vms.end() && user != state.users.end() && !may_use(user->second, vm->second))
      forbidden.push_back(id);
  }
  return forbidden;
}

Result<LeaseRequest> with_host_of_vm(const State& state, const User& user, const LeaseRequest& request) {
  if (request.slurm && (!request.vm.empty() || request.any_host))
    return failure(Code::kInvalidArgument, "slurm: an allocation is on one node, and not for a VM");
  if (request.vm.empty()) {
    if (request.power_cycle) return failure(Code::kInvalidArgument, "power_cycle: no VM is named");
    return request;
  }
  const auto found = state.vms.find(request.vm);
  if (found == state.vms.end())
    return failure(Code::kInvalidArgument, "there is no VM {} that an agent of a vCenter tells of", request.vm);
  const Vm& vm = found->second;
  if (!may_use(user, vm))
    return failure(Code::kInvalidArgument,
                   "VM {} is for {}, not for {}: an admin may add you to --vm-users of its agent", vm.name,
                   fmt::join(vm.users, ", "), user.name);
  if (!vm.has_reserved)
    return failure(Code::kInvalidArgument,
                   "VM {} cannot have a GPU: not all of its memory is reserved; set \"Reserve all guest memory\"",
                   vm.name);
  if (vm.running && !request.power_cycle)
    return failure(Code::kResourceExhausted,
                   "VM {} is running, and a GPU is given only while it is off: shut it down, or let the pool do so "
                   "(--power-cycle)",
                   vm.name);
  if (request.power_cycle && !vm.may_cycle)
    return failure(Code::kInvalidArgument, "the agent of {} may not shut down VMs: shut down {} first", vm.host,
                   vm.name);
  if (const int devices = vm.devices + pending_devices(state, vm); devices + request.gpus > kMaxVmDevices)
    return failure(Code::kResourceExhausted,
                   "VM {} has or gets {} passthrough devices; with {} more it would have more than {}", vm.name,
                   devices, request.gpus, kMaxVmDevices);
  LeaseRequest placed = request;
  placed.host = vm.host;
  return placed;
}

Status check_adoption_by_vm(const State& state, const LeaseRequest& request, const Gpu& gpu) {
  if (gpu.backend() == Backend::kSlurm)
    return failure(Code::kInvalidArgument, "adopt: {} belongs to a job of Slurm, and stays with it", gpu.uuid);
  if (request.slurm) return failure(Code::kInvalidArgument, "adopt: {} is not a GPU of a Slurm cluster", gpu.uuid);
  if (gpu.backend() == Backend::kHost && request.vm.empty()) return {};
  const auto vm = state.vms.find(request.vm);
  if (gpu.backend() == Backend::kVsphere && vm != state.vms.end() && has(vm->second, gpu.uuid)) return {};
  return failure(Code::kInvalidArgument, "adopt: {} is not a GPU that {} has", gpu.uuid,
                 request.vm.empty() ? "the VM that you name" : "VM " + request.vm);
}

Result<std::vector<VmAssignment>> vm_assignments(const State& state, Store& store, std::string_view host) {
  std::map<std::string, VmAssignment> assignments;
  const auto of = [&](const std::string& vm) -> VmAssignment& {
    return assignments.try_emplace(vm, VmAssignment{.vm = vm}).first->second;
  };
  for (const auto& [id, lease] : state.leases) {
    if (!lease.is_open() || lease.request.vm.empty() || lease.request.host != host) continue;
    VmAssignment& assignment = of(lease.request.vm);
    assignment.leases.push_back(id);
    assignment.gpus.insert(assignment.gpus.end(), lease.gpus.begin(), lease.gpus.end());
    assignment.power_cycle |= lease.request.power_cycle;
  }
  for (const auto& [name, vm] : state.vms) {
    if (vm.host != host) continue;
    for (const std::string& gpu : vm.gpus) {
      if (const Lease* const holder = state.holder_of(gpu); holder != nullptr && holder->request.vm == name) continue;
      XOE_ASSIGN(const auto last, store.last_lease_of(gpu, name));
      if (!last) continue;
      of(name).take_back.push_back(gpu);
      of(name).power_cycle |= last->request.power_cycle;
    }
  }
  std::vector<VmAssignment> all;
  for (auto& [name, assignment] : assignments) all.push_back(std::move(assignment));
  return all;
}

std::vector<ClusterLease> cluster_leases(const State& state, std::string_view host, Time now) {
  std::vector<ClusterLease> leases;
  for (const auto& [id, lease] : state.leases) {
    if (!lease.is_open() || !lease.request.slurm) continue;
    const auto gpu = state.gpus.find(lease.gpus.front());
    if (gpu == state.gpus.end() || gpu->second.host != host) continue;
    leases.push_back({id, lease.user, gpu->second.host, lease.gpus, lease.ends(), lease.ends() - now});
  }
  return leases;
}

std::vector<std::string> vm_drift(const State& state, const Gpu& gpu, const Lease* lease) {
  std::vector<std::string> found;
  const auto reason = [](const Vm& vm) { return vm.problem.empty() ? std::string() : ": " + vm.problem; };
  for (const auto& [name, vm] : state.vms) {
    if (!has(vm, gpu.uuid) || (lease != nullptr && lease->request.vm == name)) continue;
    found.push_back(lease == nullptr ? fmt::format("VM {} has it without a lease{}", name, reason(vm))
                                     : fmt::format("leased by {} for VM {}, but VM {} has it{}", lease->user,
                                                   lease->request.vm, name, reason(vm)));
  }
  if (lease == nullptr) return found;
  const auto vm = state.vms.find(lease->request.vm);
  if (vm == state.vms.end())
    found.push_back(fmt::format("leased by {} for VM {}, which is not there", lease->user, lease->request.vm));
  else if (!has(vm->second, gpu.uuid))
    found.push_back(fmt::format("leased by {} for VM {}, which does not have it yet{}", lease->user, lease->request.vm,
                                reason(vm->second)));
  return found;
}

}  // namespace xoe::pool

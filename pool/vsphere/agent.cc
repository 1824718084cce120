#include "pool/vsphere/agent.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::pool::vsphere {
namespace {

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
constexpr int kMostSlots = 64;  // of one GPU

std::string gpu_id(const EsxiHost& host, const std::string& pci) {
  std::string name = host.name;
  std::ranges::replace_if(
      name, [](char c) { return c == ' ' || c == ',' || c == '\n'; }, '_');
  return fmt::format("{}{}:{}", kVmGpuPrefix, name, pci);
}

// "vsphere:esx1:0000:3b:00.0" -> "0000:3b:00.0"; empty: a vGPU.
std::string pci_of(const std::string& id) {
  const auto colon = id.find(':', kVmGpuPrefix.size());
  return colon == std::string::npos || id.find('#') != std::string::npos ? std::string() : id.substr(colon + 1);
}

// The frame buffer of a vGPU in GiB: 8 of "grid_t4-8q". 0: the name does not tell.
std::uint64_t gib_of(const std::string& profile) {
  std::string digits;
  for (auto c = profile.rbegin(); c != profile.rend() && *c != '-'; ++c)
    if (*c >= '0' && *c <= '9') digits.insert(digits.begin(), *c);
  return digits.size() > 3 ? 0 : static_cast<std::uint64_t>(parse_integer(digits).value_or(0));
}

// The vGPUs that a shared GPU has room for.
std::uint64_t room_of(const EsxiHost& host, const HostGpu& gpu, const Rules& rules) {
  if (!gpu.shared || std::ranges::find(host.vgpu_profiles, rules.vgpu_profile) == host.vgpu_profiles.end()) return 0;
  const std::uint64_t gib = gib_of(rules.vgpu_profile);
  return gib == 0 ? 0 : gpu.memory / (gib * kGib);
}

int slots_of(const EsxiHost& host, const HostGpu& gpu, const Rules& rules) {
  return static_cast<int>(std::min<std::uint64_t>(room_of(host, gpu, rules), kMostSlots));
}

std::vector<std::string> slots_of(const EsxiHost& host, const Rules& rules) {
  std::vector<std::string> ids;
  for (const HostGpu& gpu : host.gpus)
    for (int slot = 0; slot < slots_of(host, gpu, rules); ++slot)
      ids.push_back(fmt::format("{}#{}", gpu_id(host, gpu.pci), slot));
  return ids;
}

bool serves(const Rules& rules, const VirtualMachine& vm) { return rules.vms.empty() || rules.vms.contains(vm.name); }

std::vector<std::string> users_of(const Rules& rules, const std::string& vm) {
  auto found = rules.users.find(vm);
  if (found == rules.users.end()) found = rules.users.find("*");
  return found == rules.users.end() ? std::vector<std::string>() : found->second;
}

const VmAssignment* assignment_of(const std::vector<VmAssignment>& assignments, const std::string& vm) {
  const auto found = std::ranges::find(assignments, vm, &VmAssignment::vm);
  return found == assignments.end() ? nullptr : &*found;
}

int vgpus_of(const VirtualMachine& vm, const Rules& rules) {
  return static_cast<int>(std::ranges::count(vm.devices, rules.vgpu_profile, &VmDevice::profile));
}

// Which GPUs of a host each of its VMs has, by the names of the pool. A VM's vGPUs are those of its lease as far as
// they go, then any that no other has.
std::map<std::string, std::vector<std::string>> holders_on(const EsxiHost& host, const Inventory& inventory,
                                                           const Rules& rules,
                                                           const std::vector<VmAssignment>& assignments) {
  std::map<std::string, std::vector<std::string>> holders;
  std::vector<std::string> slots = slots_of(host, rules);
  std::map<std::string, int> missing;  // vGPUs that have no name yet
  for (const VirtualMachine& vm : inventory.vms) {
    if (vm.host != host.object) continue;
    for (const VmDevice& device : vm.devices)
      if (!device.pci.empty()) holders[vm.name].push_back(gpu_id(host, device.pci));
    missing[vm.name] = rules.vgpu_profile.empty() ? 0 : vgpus_of(vm, rules);
    const VmAssignment* const assigned = assignment_of(assignments, vm.name);
    if (assigned == nullptr) continue;
    for (const std::string& id : assigned->gpus)
      if (missing[vm.name] > 0 && std::erase(slots, id) > 0) {
        holders[vm.name].push_back(id);
        --missing[vm.name];
      }
  }
  for (auto& [name, count] : missing)
    for (; count > 0 && !slots.empty(); --count) {
      holders[name].push_back(slots.front());
      slots.erase(slots.begin());
    }
  return holders;
}

void add_gpu(HostReport& report, const EsxiHost& host, const HostGpu& gpu, std::string id, std::uint64_t memory,
             std::string name) {
  report.gpus.push_back(
      {.uuid = std::move(id), .host = host.name, .name = std::move(name), .pci = gpu.pci, .memory = memory});
  report.activity.emplace_back();
}

HostReport report_of(const EsxiHost& host, const Inventory& inventory, const Rules& rules,
                     const std::vector<VmAssignment>& assignments, const std::map<std::string, std::string>& problems) {
  HostReport report{.host = host.name};
  for (const HostGpu& gpu : host.gpus) {
    if (!gpu.shared && gpu.enabled) add_gpu(report, host, gpu, gpu_id(host, gpu.pci), gpu.memory, gpu.name);
    if (const auto room = room_of(host, gpu, rules); room > kMostSlots)
      report.add_problem(
          fmt::format("{} has room for {} vGPUs, more than the {} that are reported", gpu.pci, room, kMostSlots));
    for (int slot = 0; slot < slots_of(host, gpu, rules); ++slot)
      add_gpu(report, host, gpu, fmt::format("{}#{}", gpu_id(host, gpu.pci), slot), gib_of(rules.vgpu_profile) * kGib,
              rules.vgpu_profile);
  }
  if (report.gpus.empty())
    report.without = host.gpus_known ? "no GPU is enabled for DirectPath I/O, or shared by a known vGPU profile"
                                     : "vCenter does not tell the host's devices";
  const auto holders = holders_on(host, inventory, rules, assignments);
  for (const VirtualMachine& vm : inventory.vms) {
    if (vm.host != host.object) continue;
    const auto held = holders.find(vm.name);
    Vm told{.name = vm.name,
            .host = host.name,
            .running = vm.running,
            .has_reserved = vm.has_reserved,
            .may_cycle = rules.power_cycle,
            .devices = static_cast<int>(vm.devices.size()),
            .users = users_of(rules, vm.name)};
    if (held != holders.end()) told.gpus = held->second;
    if (const auto problem = problems.find(vm.name); problem != problems.end()) told.problem = problem->second;
    for (std::size_t i = 0; i < report.gpus.size(); ++i)
      if (std::ranges::find(told.gpus, report.gpus[i].uuid) != told.gpus.end())
        report.activity[i].processes.push_back({.user = "VM " + vm.name});
    if (serves(rules, vm)) report.vms.push_back(std::move(told));
  }
  return report;
}

// Why a GPU cannot be added: another VM has it already, or one that runs may have it. vCenter itself would let two have
// it as long as they are off. Empty: it can.
std::string why_taken(const Inventory& inventory, const VirtualMachine& vm, const std::string& pci) {
  for (const VirtualMachine& other : inventory.vms) {
    if (other.object == vm.object || other.host != vm.host) continue;
    if (std::ranges::find(other.devices, pci, &VmDevice::pci) != other.devices.end())
      return fmt::format("VM {} still has {}", other.name, pci);
    if (!other.devices_known && other.running)
      return fmt::format("VM {} may have {}: vCenter does not tell its devices", other.name, pci);
  }
  return {};
}

std::optional<Step> step_to(const Inventory& inventory, const VirtualMachine& vm, const EsxiHost& host,
                            const Rules& rules, const VmAssignment& assigned) {
  Step step{.vm = vm, .power_cycle = assigned.power_cycle, .leases = assigned.leases, .gpus = assigned.gpus};
  int vgpus = 0;
  for (const std::string& id : assigned.gpus) {
    const std::string pci = pci_of(id);
    if (pci.empty()) {
      ++vgpus;
      continue;
    }
    if (gpu_id(host, pci) != id) {
      step.blocked = fmt::format("the VM is on {}, where {} is not", host.name, id);
      continue;
    }
    if (std::ranges::find(vm.devices, pci, &VmDevice::pci) != vm.devices.end()) continue;
    step.change.add_pci.insert(pci);
    if (std::string taken = why_taken(inventory, vm, pci); !taken.empty()) step.blocked = std::move(taken);
  }
  int vgpus_back = 0;
  for (const std::string& id : assigned.take_back) {
    const std::string pci = pci_of(id);
    vgpus_back += pci.empty() ? 1 : 0;
    for (const VmDevice& device : vm.devices)
      if (!pci.empty() && device.pci == pci) step.change.remove_keys.insert(device.key);
  }
  const int has = rules.vgpu_profile.empty() ? 0 : vgpus_of(vm, rules);
  if (has < vgpus) step.change.add_profiles.assign(static_cast<std::size_t>(vgpus - has), rules.vgpu_profile);
  int surplus = std::min(vgpus_back, has - vgpus);
  for (const VmDevice& device : vm.devices)
    if (surplus > 0 && device.profile == rules.vgpu_profile) {
      step.change.remove_keys.insert(device.key);
      --surplus;
    }
  if (step.change.empty() && step.blocked.empty()) return std::nullopt;
  if (!vm.devices_known)
    step.blocked = "vCenter does not tell the VM's devices";
  else if (vm.running && !step.power_cycle)
    step.blocked = "the VM is running; GPUs change only while it is off: shut it down";
  else if (vm.running && !rules.power_cycle)
    step.blocked = "the VM is running, and the agent may not shut it down";
  return step;
}

}  // namespace

Reports reports_of(const Inventory& inventory, const Rules& rules, const std::vector<VmAssignment>& assignments,
                   const std::map<std::string, std::string>& problems) {
  Reports reports;
  std::map<std::string, int> names;
  for (const VirtualMachine& vm : inventory.vms) ++names[vm.name];
  for (const EsxiHost& host : inventory.hosts) {
    HostReport report = report_of(host, inventory, rules, assignments, problems);
    std::erase_if(report.vms, [&](const Vm& vm) { return names[vm.name] > 1; });
    if (!report.problem.empty()) reports.warnings.push_back(report.host + ": " + report.problem);
    reports.hosts.push_back(std::move(report));
  }
  for (const auto& [name, count] : names)
    if (count > 1)
      reports.warnings.push_back(fmt::format("{} have the name {}: they get no GPUs", counted(count, "VM"), name));
  return reports;
}

std::vector<Step> steps_to(const Inventory& inventory, const Rules& rules,
                           const std::vector<VmAssignment>& assignments) {
  std::vector<Step> steps;
  for (const VirtualMachine& vm : inventory.vms) {
    const VmAssignment* const assigned = assignment_of(assignments, vm.name);
    const auto host = std::ranges::find(inventory.hosts, vm.host, &EsxiHost::object);
    if (assigned == nullptr || host == inventory.hosts.end() || !serves(rules, vm)) continue;
    if (auto step = step_to(inventory, vm, *host, rules, *assigned)) steps.push_back(std::move(*step));
  }
  std::ranges::stable_partition(
      steps, [](const Step& step) { return step.change.add_pci.empty() && step.change.add_profiles.empty(); });
  return steps;
}

Result<Reports> Agent::observe() {
  XOE_ASSIGN(Inventory seen, vcenter_->look());
  keep_devices(seen, inventory_);
  inventory_ = std::move(seen);
  return reports_of(inventory_, rules_, assignments_, problems_);
}

// Those of before stay where nothing was told: the names of a VM's vGPUs depend on them.
void Agent::take(const std::vector<VmAssignment>& assignments, const std::set<std::string>& unknown) {
  std::set<std::string> kept;
  for (const VirtualMachine& vm : inventory_.vms) {
    const auto host = std::ranges::find(inventory_.hosts, vm.host, &EsxiHost::object);
    if (host != inventory_.hosts.end() && unknown.contains(host->name)) kept.insert(vm.name);
  }
  std::erase_if(assignments_, [&](const VmAssignment& assigned) {
    return !kept.contains(assigned.vm) || assignment_of(assignments, assigned.vm) != nullptr;
  });
  assignments_.insert(assignments_.end(), assignments.begin(), assignments.end());
}

void Agent::forget_what_is_over() {
  std::set<Reference> off;
  for (const VirtualMachine& vm : inventory_.vms)
    if (!vm.running) off.insert(vm.object);
  std::erase_if(to_start_, [&](const Reference& vm) { return !off.contains(vm); });
  std::erase_if(given_up_, [&](const auto& item) {
    const VmAssignment* const assigned = assignment_of(assignments_, item.first);
    return assigned == nullptr || assigned->leases != item.second.leases || assigned->gpus != item.second.gpus;
  });
}

std::vector<std::string> Agent::apply(const std::vector<VmAssignment>& assignments,
                                      const std::set<std::string>& unknown) {
  take(assignments, unknown);
  forget_what_is_over();
  problems_.clear();
  std::vector<std::string> log;
  std::set<std::string> waiting;
  for (const Step& step : steps_to(inventory_, rules_, assignments)) {
    const std::string& name = step.vm.name;
    waiting.insert(name);
    if (!step.blocked.empty()) {
      problems_[name] = step.blocked;
      continue;
    }
    const auto given_up = given_up_.find(name);
    if (step.vm.running && given_up != given_up_.end()) {
      problems_[name] = given_up->second.why;
      continue;
    }
    if (const Status done = carry_out(step)) {
      given_up_.erase(name);
      waiting.erase(name);
      log.push_back(fmt::format("VM {}: {} added, {} taken back", name,
                                step.change.add_pci.size() + step.change.add_profiles.size(),
                                step.change.remove_keys.size()));
    } else {
      problems_[name] = done.error().message();
    }
  }
  for (const VirtualMachine& vm : inventory_.vms) {
    if (!to_start_.contains(vm.object) || waiting.contains(vm.name)) continue;
    const Status started = vcenter_->power_on(vm);
    if (started)
      to_start_.erase(vm.object);
    else
      problems_[vm.name] = "it was shut down, and does not start: " + started.error().message();
  }
  for (const auto& [name, problem] : problems_) log.push_back(fmt::format("VM {}: {}", name, problem));
  return log;
}

Status Agent::carry_out(const Step& step) {
  return step.vm.running ? cycle(step) : vcenter_->change(step.vm, step.change);
}

// The VM is started again whatever becomes of the change, and is not shut down for the same GPUs twice.
Status Agent::cycle(const Step& step) {
  XOE_TRY(vcenter_->shut_down(step.vm, rules_.shutdown_timeout));
  to_start_.insert(step.vm.object);
  const Status changed = vcenter_->change(step.vm, step.change);
  if (!changed)
    given_up_[step.vm.name] = {step.leases, step.gpus, "it was shut down in vain: " + changed.error().message()};
  XOE_TRY(vcenter_->power_on(step.vm));
  to_start_.erase(step.vm.object);
  return changed;
}

}  // namespace xoe::pool::vsphere

#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "pool/vsphere/vcenter.h"

namespace xoe::pool::vsphere {
namespace {

// The properties of one object by their paths.
using Properties = std::map<std::string, const Element*, std::less<>>;

Properties properties_of(const Element& object) {
  Properties properties;
  for (const Element& each : object.children)
    if (const Element* const value = each.child("val"); each.name == "propSet" && value != nullptr)
      properties.emplace(each.text_at("name"), value);
  return properties;
}

// The elements of a list; none where it is missing.
const std::vector<Element>& items(const Properties& properties, std::string_view path) {
  static const std::vector<Element> kNone;
  const auto found = properties.find(path);
  return found == properties.end() ? kNone : found->second->children;
}

std::string text(const Properties& properties, std::string_view path) {
  const auto found = properties.find(path);
  return found == properties.end() ? std::string() : found->second->text;
}

std::int64_t number(const std::string& text) { return parse_integer(text).value_or(0); }

// "TU104GL [Tesla T4]" is a Tesla T4.
std::string model_of(const std::string& device) {
  const auto open = device.find('[');
  const auto close = device.rfind(']');
  if (open == std::string::npos || close == std::string::npos || close < open + 2) return device;
  return device.substr(open + 1, close - open - 1);
}

// A display or 3D controller of NVIDIA or AMD.
bool is_gpu(const Element& device) {
  const auto kind = number(device.text_at("classId")) & 0xffff;
  const auto vendor = number(device.text_at("vendorId")) & 0xffff;
  return (kind >> 8) == 0x03 && (vendor == 0x10de || vendor == 0x1002);
}

EsxiHost host_of(const Reference& object, const Properties& properties) {
  EsxiHost host{
      .object = object, .name = text(properties, "name"), .gpus_known = properties.contains("hardware.pciDevice")};
  for (const Element& device : items(properties, "hardware.pciDevice"))
    if (is_gpu(device))
      host.gpus.push_back({.pci = device.text_at("id"), .name = model_of(device.text_at("deviceName"))});
  const auto with = [&](const std::string& pci, auto&& set) {
    const auto found = std::ranges::find(host.gpus, pci, &HostGpu::pci);
    if (found != host.gpus.end()) set(*found);
  };
  for (const Element& info : items(properties, "config.pciPassthruInfo"))
    with(info.text_at("id"), [&](HostGpu& gpu) {
      gpu.enabled = info.text_at("passthruEnabled") == "true" && info.text_at("passthruActive") == "true";
    });
  for (const Element& info : items(properties, "config.graphicsInfo"))
    with(info.text_at("pciId"), [&](HostGpu& gpu) {
      gpu.shared = info.text_at("graphicsType") == "sharedDirect";
      const auto kib = number(info.text_at("memorySizeInKB"));
      if (kib > 0 && kib < (std::int64_t{1} << 40)) gpu.memory = static_cast<std::uint64_t>(kib) << 10;
    });
  for (const Element& profile : items(properties, "config.sharedPassthruGpuTypes"))
    host.vgpu_profiles.push_back(profile.text);
  return host;
}

std::optional<VmDevice> device_of(const Element& element) {
  const Element* const backing = element.child("backing");
  if (element.is_a != "VirtualPCIPassthrough" || backing == nullptr) return std::nullopt;
  VmDevice device{.key = static_cast<int>(number(element.text_at("key")))};
  if (backing->is_a == "VirtualPCIPassthroughVmiopBackingInfo")
    device.profile = backing->text_at("vgpu");
  else if (backing->is_a == "VirtualPCIPassthroughDynamicBackingInfo")
    device.pci = backing->text_at("assignedId");
  else
    device.pci = backing->text_at("id");
  return device;
}

VirtualMachine vm_of(const Reference& object, const Properties& properties) {
  // Every VM has devices of some kind.
  VirtualMachine vm{.object = object,
                    .name = text(properties, "name"),
                    .running = text(properties, "runtime.powerState") != "poweredOff",
                    .devices_known = properties.contains("config.hardware.device")};
  if (const auto host = properties.find("runtime.host"); host != properties.end())
    vm.host = reference_of(*host->second);
  const std::int64_t memory = number(text(properties, "config.hardware.memoryMB"));
  vm.has_reserved = text(properties, "config.memoryReservationLockedToMax") == "true" ||
                    (memory > 0 && number(text(properties, "config.memoryAllocation.reservation")) >= memory);
  for (const Element& element : items(properties, "config.hardware.device"))
    if (auto device = device_of(element)) vm.devices.push_back(std::move(*device));
  return vm;
}

}  // namespace

Inventory inventory_of(const std::vector<Element>& objects) {
  Inventory inventory;
  for (const Element& object : objects) {
    const Element* const named = object.child("obj");
    if (named == nullptr) continue;
    const Properties properties = properties_of(object);
    if (named->type == "HostSystem") inventory.hosts.push_back(host_of(reference_of(*named), properties));
    // A VM that is being made has no power state yet; a template is none.
    if (named->type == "VirtualMachine" && properties.contains("runtime.powerState") &&
        text(properties, "config.template") != "true")
      inventory.vms.push_back(vm_of(reference_of(*named), properties));
  }
  return inventory;
}

void keep_devices(Inventory& inventory, const Inventory& before) {
  for (VirtualMachine& vm : inventory.vms) {
    const auto known = std::ranges::find(before.vms, vm.object, &VirtualMachine::object);
    if (vm.devices_known || known == before.vms.end()) continue;
    vm.devices = known->devices;
    vm.devices_known = known->devices_known;
  }
}

}  // namespace xoe::pool::vsphere

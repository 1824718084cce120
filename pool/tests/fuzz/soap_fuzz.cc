// What a vCenter answers: any bytes.
#include "core/testing/fuzz/memory_file.h"
#include "pool/vsphere/vcenter.h"
#include "target.h"

XOE_FUZZ_TARGET(soap_fuzz) {
  using namespace xoe::pool::vsphere;
  const auto answer = parse_answer({reinterpret_cast<const char*>(bytes), size});
  if (!answer) return 0;
  const Element* const result = answer->body.child("returnval");
  if (result == nullptr) return 0;
  const Inventory inventory = inventory_of(result->children);
  for (const EsxiHost& host : inventory.hosts)
    for (const HostGpu& gpu : host.gpus) xoe::require(gpu.memory < (std::uint64_t{1} << 50));
  for (const VirtualMachine& vm : inventory.vms)
    for (const VmDevice& device : vm.devices) xoe::require(device.pci.empty() || device.profile.empty());
  return 0;
}

// Configuration spaces of PCI functions: any bytes.
#include "core/testing/fuzz/memory_file.h"
#include "launch/doctor/facts/pci_config.h"
#include "target.h"

XOE_FUZZ_TARGET(pci_fuzz) {
  const auto config = xoe::doctor::parse_pci_config({bytes, size});
  if (!config) return 0;
  xoe::require(size >= 64);
  xoe::require(!config->access_control || (config->extended && config->access_control->offset + 8 <= size));
  xoe::require(!config->extended || (config->express && size > 256));
  return 0;
}

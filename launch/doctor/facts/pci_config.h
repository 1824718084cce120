// The configuration space of a PCI function, as /sys/bus/pci/devices/*/config holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "xoe/status.h"

namespace xoe::doctor {

// The PCI Express capability (id 0x10).
struct ExpressLink {
  int port_type = 0;  // 0 endpoint, 4 root port, 5 and 6 switch ports up and down, 7 bridge to PCI
  int speed = 0;      // generation; 0: none
  int width = 0;      // lanes
  int most_speed = 0;
  int most_width = 0;
};

// Access Control Services (extended capability 0x000D): may a bridge hand requests of one card to another directly?
struct AccessControl {
  std::uint16_t control = 0;
  std::size_t offset = 0;  // of the capability

  bool redirects_requests() const noexcept { return (control & 0x04U) != 0; }
  bool redirects_completions() const noexcept { return (control & 0x08U) != 0; }
};

// Address Translation Services (extended capability 0x000F).
struct AddressTranslation {
  bool enabled = false;
};

struct PciConfig {
  std::uint16_t vendor = 0;
  bool bridge = false;  // header of type 1
  std::optional<ExpressLink> express = {};
  bool extended = false;  // the extended capabilities could be read
  std::optional<AccessControl> access_control = {};
  std::optional<AddressTranslation> address_translation = {};
};

// 64 bytes (all that users other than root can read), 256 or 4096; other sizes are read as far as they go.
// data_loss: shorter, no answer of the device, or a list of capabilities that leads in circles or out of bounds.
Result<PciConfig> parse_pci_config(std::span<const std::uint8_t> bytes);

}  // namespace xoe::doctor

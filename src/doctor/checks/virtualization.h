// Virtual machines and containers.
#pragma once

#include <string>

#include "doctor/facts/tree.h"
#include "doctor/report/finding.h"

namespace xoe::doctor {

struct Virtualization {
  bool virtual_machine = false;
  std::string hypervisor = {};  // "VMware", "KVM", ...; empty: unknown
  std::string product = {};     // as the firmware says it
  std::string container = {};   // "Docker", "Podman", "Kubernetes", ...; empty: none
};

Virtualization read_virtualization(const Tree& tree);
Findings check_virtualization(const Virtualization& facts);

}  // namespace xoe::doctor

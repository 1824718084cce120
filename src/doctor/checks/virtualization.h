// Virtual machines and containers.
#pragma once

#include <string>

#include "doctor/finding.h"
#include "doctor/tree.h"

namespace xoe::doctor {

struct Surroundings {
  bool virtual_machine = false;
  std::string hypervisor = {};  // "VMware", "KVM", ...; empty: unknown
  std::string product = {};     // as the firmware says it
  std::string container = {};   // "Docker", "Podman", "Kubernetes", ...; empty: none
};

Surroundings read_surroundings(const Tree& tree);
Findings check_surroundings(const Surroundings& facts);

}  // namespace xoe::doctor

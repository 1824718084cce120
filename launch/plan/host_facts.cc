#include "launch/plan/host_facts.h"

#include "core/base/error.h"
#include "launch/plan/cores.h"

namespace xoe::launch {

Result<HostFacts> read_host_facts() {
  HostFacts host;
  XOE_ASSIGN(host.allowed_cpus, allowed_cpus());
  host.usable_cores = usable_cores(host.allowed_cpus.size());
  return host;
}

}  // namespace xoe::launch

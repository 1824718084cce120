// GPUs that are not given to programs of a host: what virtual machines and clusters shall have, and how that differs
// from what they have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pool/model/state.h"
#include "pool/state/store.h"

namespace xoe::pool {

// Whether the user, or its team, is one of those whom the VM's agent names, if it names any. An admin always may.
bool may_use(const User& user, const Vm& vm);

// Leases that wait for a VM whose list their users are not on any more. One that is open stays: its holder was allowed
// to have it.
std::vector<std::int64_t> forbidden_waits(const State& state);

// The request with the host of its VM; without a VM, as it is. Refused with the reason: there is no such VM, it is
// for other users, it runs and may not be shut down, its memory is not reserved, it would have too many devices.
Result<LeaseRequest> with_host_of_vm(const State& state, const User& user, const LeaseRequest& request);

// A GPU that a VM has may become part of a lease for that VM only.
Status check_adoption_by_vm(const State& state, const LeaseRequest& request, const Gpu& gpu);

// For the agent of a host's vCenter. What a VM has without ever having had a lease for it is not taken from it.
Result<std::vector<VmAssignment>> vm_assignments(const State& state, Store& store, std::string_view host);

// For the agent of a Slurm cluster: the leases on one of its nodes.
std::vector<ClusterLease> cluster_leases(const State& state, std::string_view host, Time now);

// Of a GPU for VMs that its agent sees; `lease`: who holds it, or nullptr.
std::vector<std::string> vm_drift(const State& state, const Gpu& gpu, const Lease* lease);

}  // namespace xoe::pool

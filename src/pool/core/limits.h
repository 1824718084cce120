// What may be asked for.
#pragma once

#include "pool/model/state.h"
#include "xoe/status.h"

namespace xoe::pool {

// `invalid_argument`: no pool would give it. `resource_exhausted`: a limit of the user or its team.
Status check_ask(const State& state, const User& user, const Ask& ask, Time now);
// Whether the GPUs that it names are in use by the user's processes, or its VM, and by no lease.
Status check_adoption(const State& state, const User& user, const Ask& ask);
Status check_duration(const Policy& policy, Span duration);

}  // namespace xoe::pool

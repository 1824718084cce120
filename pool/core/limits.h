// What may be asked for.
#pragma once

#include "pool/model/state.h"
#include "xoe/status.h"

namespace xoe::pool {

inline constexpr std::size_t kMaxUsers = 10'000;
inline constexpr std::size_t kMaxTeams = 10'000;

// Who asks for this minute asks for now.
inline constexpr Span kThisMinute = std::chrono::minutes(1);

// The actor of what the pool does by itself; no user has this name.
inline constexpr std::string_view kPoolItself = "pool";

// Of a text that others see. `invalid_argument`: it has characters that do not show, and `name` says of which field.
Status check_visible(std::string_view name, std::string_view text);
// `invalid_argument`: no pool would give it. One that is sent again is refused, too.
Status check_form(const LeaseRequest& request);
// Of an ask in good form. `invalid_argument`: this pool would not give it now. `resource_exhausted`: a limit of the
// user or its team.
Status check_request(const State& state, const User& user, const LeaseRequest& request, Time now);
// Whether the GPUs that it names are in use by the user's processes, or its VM, and by no lease.
Status check_adoption(const State& state, const User& user, const LeaseRequest& request);
// Whether a lease that is open, or about to open, leaves all that wait the starts that they were told if it ends at
// `until`. `resource_exhausted`: no; `which` names it.
Status check_promises(const State& state, const Lease& lease, Time until, Time now, std::string_view which);
// `agent`: who tells it; empty: an admin. `invalid_argument`: another agent tells of this host, or another host has one
// of the GPUs.
Status check_report(const State& state, const HostReport& report, std::string_view agent, Time now);
// The next two, `resource_exhausted`: there are as many as the pool has room for.
Status check_team(const State& state, const Team& team);
Status check_user(const State& state, const User& user);
Status check_duration(const Policy& policy, Span duration);

}  // namespace xoe::pool

// What holders of leases are told: a line of the audit log that concerns them, and its lease.
#pragma once

#include <string>
#include <string_view>

#include "pool/model/state.h"

namespace xoe::pool {

struct Notice {
  Event event = {};
  Lease lease = {};
  std::vector<std::string> hosts = {};  // that the lease's GPUs are on
};

// Granted, expiring, asked to give way, idle, or ended by another than its user.
bool is_notice(const Event& event, const Lease& lease);

// "lease 3: 2 GPUs on a until 2026-11-26 18:05:00 UTC"
std::string sentence_of(const Notice& notice);

// "lease 3 has ended: maintenance", "lease 4 was refused: ann holds the GPU (lease 3) until ...": a sentence of what
// Lease::why says of a lease that has ended, which may be nothing. `lease` is the subject.
std::string ended_sentence(std::string_view lease, std::string_view why);

// A mail to the lease's user, with its headers. `domain`: after the user's name; empty: a user of this host.
std::string mail_of(const Notice& notice, const std::string& domain);

}  // namespace xoe::pool

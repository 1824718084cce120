// The pool's values as JSON, as the HTTP interface has them: what is computed for wire.h.
#pragma once

#include <string>

#include "core/describe/json.h"
#include "pool/core/pool.h"
#include "pool/server/orders.h"

namespace xoe::pool {

using describe::Json;

// A header of each answer: the pool's time, which leases end by, in seconds since 1970.
inline constexpr const char* kNowHeader = "Xoe-Now";

// For a reader; bytes that are no UTF-8 become U+FFFD.
std::string to_text(const Json& json);
// `invalid_argument`: no JSON object.
Result<Json> parse_object(std::string_view text);

Json json_of(Time time);
Json json_of(const Error& error);
Json json_of(const Lease& lease, const State& state);
Json json_of(const Event& event);
Json json_of(const UsageRow& row);
Json status_json(const Pool& pool, Time now);
Json json_of(const HostReport& report);

// `invalid_argument` names the field that is missing, unknown, or not what it should be.
Result<HostReport> report_of(const Json& json);
// Of the pool's answer to a report.
Result<wire::Orders> orders_of(const Json& answer);

}  // namespace xoe::pool

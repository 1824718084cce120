// The pool's values as JSON, as the HTTP interface has them. Times are seconds since 1970, spans seconds, both with a
// fraction.
#pragma once

#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "pool/core/drift.h"
#include "pool/core/pool.h"

namespace xoe::pool {

using Json = nlohmann::json;

// For a reader; bytes that are no UTF-8 become U+FFFD.
std::string to_text(const Json& json);
// `invalid_argument`: no JSON object.
Result<Json> parse_object(std::string_view text);

Json json_of(Time time);
Json json_of(const Error& error);
Json json_of(const Lease& lease, const State& state);
Json json_of(const User& user, const Policy& policy);  // what the user may know of itself
Json json_of(const Event& event);
Json json_of(const UsageRow& row);
Json status_json(const Pool& pool, Time now);
Json json_of(const HostReport& report);
Json json_of(const VmAssignment& assignment);
Json json_of(const ClusterLease& lease);
Json json_of(const GpuHolder& holder);

// `invalid_argument` names the field that is missing, unknown, or not what it should be.
Result<LeaseRequest> request_of(const Json& json);
Result<HostReport> report_of(const Json& json);
// Of the pool's answer to a report.
Result<std::vector<VmAssignment>> assignments_of(const Json& answer);
Result<std::vector<ClusterLease>> cluster_leases_of(const Json& answer);
Result<std::map<std::string, std::set<std::string>>> holders_of(const Json& answer);  // by GPU
// `before`: the team as it is; fields that are not given stay.
Result<Team> team_of(const Json& json, Team before = {});
// The user as it was before, changed by the fields that there are, without its token. `new_token`: whether it shall get
// another one.
Result<User> user_of(const Json& json, User before, bool& new_token);
// `invalid_argument`: the object has a field of another name.
Status only_fields(const Json& json, std::initializer_list<const char*> names);
Result<Span> span_field(const Json& json, const char* field);
Result<std::string> text_field(const Json& json, const char* field);

}  // namespace xoe::pool

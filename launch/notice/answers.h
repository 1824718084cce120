// What clouds answer to a virtual machine that asks whether it is to be taken away.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "launch/notice/notice_line.h"
#include "xoe/status.h"

namespace xoe::notice {

// "2017-09-18T08:22:00Z", or "Mon, 19 Sep 2016 18:29:47 GMT".
std::optional<Time> parse_time(std::string_view text);

// Each gives nullopt for an answer that says that the machine stays, and `invalid_argument` for one that it does not
// know: which is no reason to believe that the machine stays. `now`: when the answer came.
//
// AWS: spot/instance-action, {"action": "terminate", "time": "..."}; "stop" and "hibernate" take it away as well.
Result<std::optional<Departure>> parse_aws(std::string_view answer, Time now);
// Google Cloud: instance/preempted, "TRUE": it is stopped 30 s later.
Result<std::optional<Departure>> parse_gcp_preempted(std::string_view answer, Time now);
// Google Cloud: instance/maintenance-event, "TERMINATE_ON_HOST_MAINTENANCE": 60 s later at the earliest.
Result<std::optional<Departure>> parse_gcp_maintenance(std::string_view answer, Time now);
// Azure: scheduledevents, those of the machine that is called `name` there. A freeze does not take it away.
Result<std::optional<Departure>> parse_azure(std::string_view answer, std::string_view name, Time now);

}  // namespace xoe::notice

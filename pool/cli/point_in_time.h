// Times as people write them: "2026-12-01T09:00", of this host, or with "Z" or an offset.
#pragma once

#include <string>

#include "pool/model/time.h"
#include "xoe/status.h"

namespace xoe::tools::pool {

// `invalid_argument`: it is no time, no day of the calendar, or a time that this host's clock skips or has twice.
Result<xoe::pool::Time> parse_point_in_time(const std::string& text);

}  // namespace xoe::tools::pool

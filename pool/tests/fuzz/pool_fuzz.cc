// What clients and agents send to a pool: any bytes; a report that is understood is written again as it was.
#include "core/testing/fuzz/memory_file.h"
#include "pool/server/json.h"
#include "pool/server/request_extent.h"
#include "target.h"

XOE_FUZZ_TARGET(pool_fuzz) {
  using namespace xoe::pool;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const RequestExtent extent = extent_of(text);
  xoe::require(extent.head <= size &&
               extent_of(text, extent.head > 0 ? extent.head - 1 : size / 2).head == extent.head);
  const auto json = parse_object(text);
  if (!json) return 0;
  if (const auto request = request_of(*json)) xoe::require(request->gpus >= 1 && request->duration >= Span(0));
  static_cast<void>(team_of(*json));
  bool new_token = false;
  static_cast<void>(user_of(*json, {}, new_token));
  const auto report = report_of(*json);
  if (!report) return 0;
  const auto again = report_of(parse_object(to_text(json_of(*report))).value());
  xoe::require(again && again->gpus == report->gpus && again->host == report->host);
  for (std::size_t i = 0; i < report->activity.size(); ++i)
    xoe::require(again->activity[i].processes == report->activity[i].processes);
  return 0;
}

// What clients and agents send to a pool: any bytes; a report that is understood is written again as it was.
#include "core/testing/fuzz/memory_file.h"
#include "pool/server/json.h"
#include "pool/server/request_extent.h"
#include "pool/server/wire.h"
#include "target.h"

namespace {

// What was understood is written as it is understood again.
template <class Form>
void read_and_write(const xoe::describe::Json& json) {
  Form form;
  if (!xoe::describe::from_json(json, form)) return;
  Form again;
  const auto written = xoe::describe::to_json(form);
  xoe::require(xoe::describe::from_json(written, again) && xoe::describe::to_json(again) == written);
}

}  // namespace

XOE_FUZZ_TARGET(pool_fuzz) {
  using namespace xoe::pool;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const RequestExtent extent = extent_of(text);
  xoe::require(extent.head <= size &&
               extent_of(text, extent.head > 0 ? extent.head - 1 : size / 2).head == extent.head);
  const auto json = parse_object(text);
  if (!json) return 0;
  if (wire::Request form; xoe::describe::from_json(*json, form))
    xoe::require(form.request.gpus >= 1 && form.request.duration >= Span(0));
  read_and_write<Team>(*json);
  read_and_write<wire::UserForm>(*json);
  read_and_write<wire::Renewal>(*json);
  read_and_write<wire::Orders>(*json);
  const auto report = report_of(*json);
  if (!report) return 0;
  const auto again = report_of(parse_object(to_text(json_of(*report))).value());
  xoe::require(again && again->gpus == report->gpus && again->host == report->host);
  for (std::size_t i = 0; i < report->activity.size(); ++i)
    xoe::require(again->activity[i].processes == report->activity[i].processes);
  return 0;
}

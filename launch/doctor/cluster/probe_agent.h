// `xoe doctor probe`: answers another doctor's requests. An agent becomes it (launch/remote/frame.h, kExamine).
#pragma once

#include "core/base/fd.h"
#include "launch/doctor/examine.h"
#include "xoe/status.h"

namespace xoe::doctor {

// Sends kReady, then answers each kRequest, a line of words, with one kAnswer, a JSON object:
//   clock                            {"clock_ns"}: since 1970
//   report                           a report
//   listen TOKEN                     {"port"}
//   probe PORT TOKEN LOAD ADDRESS... {"addresses": [{"address", "error", "latency_s", "loaded"}]}; LOAD: the numbers of
//                                    the addresses that are loaded, "0,2", or "-"
//   received                         {"received": [{"address", "bytes", "seconds"}]}; closes the port
// and {"error"} where one fails. Returns when `in` ends; `timeout` after two minutes without a request.
Status answer_requests(Fd in, Fd out, const ExamineOptions& options);

}  // namespace xoe::doctor

// `xoe doctor probe`: answers another doctor's requests, over the pipes of the ssh that started it.
#pragma once

#include "doctor/examine.h"
#include "xoe/status.h"

namespace xoe::doctor {

inline constexpr int kProtocol = 1;

// Requests are lines of words, answers lines of JSON after kAnswerMark:
//   hello                            {"protocol", "xoe"}
//   clock                            {"clock_ns"}: since 1970
//   report                           a report
//   listen TOKEN                     {"port"}
//   probe PORT TOKEN LOAD ADDRESS... {"addresses": [{"address", "error", "latency_s", "loaded"}]}; LOAD: numbers,
//   "0,2", or "-" received                         {"received": [{"address", "bytes", "seconds"}]}; the port is closed
//   then
// and {"error"} where one fails. Returns when `in` ends, or after two minutes without a request.
Status run_agent(int in, int out, const ExamineOptions& options);

}  // namespace xoe::doctor

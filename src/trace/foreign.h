// Events parsed from JSON, and traces that other programs wrote.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trace/reader.h"

namespace xoe::trace {

// Checks events and passes them to the sink.
class TraceEventSource {
 public:
  TraceEventSource(TraceInfo& info, const TraceSink& sink, const TraceLimits& limits)
      : info_(info), sink_(sink), limits_(limits) {}

  // offset: position in the file, for messages.
  Status take(nlohmann::json& event, std::uint64_t offset);
  std::uint64_t count() const noexcept { return count_; }

 private:
  TraceInfo& info_;
  const TraceSink& sink_;
  const TraceLimits& limits_;
  std::uint64_t count_ = 0;
};

// {"traceEvents": [...]} or [...], event by event. Like Chrome's viewers, it accepts a list without its end.
Status read_foreign_trace(int fd, TraceInfo& info, const TraceSink& sink, const TraceLimits& limits);

}  // namespace xoe::trace

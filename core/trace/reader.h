// Reads traces: Xoe's line by line, also if a killed rank left half an event at the end; other Chrome traces as a
// whole.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "xoe/status.h"

namespace xoe::trace {

// The limit of clocks and offsets: 9 years.
inline constexpr std::int64_t kClockLimitNs = 300'000'000'000'000'000;

struct TraceClock {
  std::int64_t offset_ns = 0;  // add it to the host's clock to get the reference host's
  std::int64_t uncertainty_ns = 0;
};

// The header of a file, and how much of it could be read.
struct TraceInfo {
  std::string path;
  bool ours = false;    // written by Xoe: the following fields come from its header
  bool merged = false;  // by `xoe timeline merge`
  std::string host;
  std::string boot_id;
  std::string job;  // that wrote it; empty: not known
  std::int64_t base_ns = 0;
  std::optional<std::int64_t> wall_base_ns;
  std::optional<TraceClock> clock;  // the last one in the file

  std::optional<std::uint64_t> cut_at;  // the byte at which an unfinished event starts
  std::uint64_t ignored = 0;            // events that were not understood
  std::uint64_t first_ignored_at = 0;   // byte
};

struct TraceEvent {
  char phase = 0;              // "ph" of Chrome's format
  std::int64_t start_ns = 0;   // relative to the file's time 0; 0 for metadata
  std::int64_t length_ns = 0;  // of an 'X'
  std::int64_t pid = 0;
  std::int64_t tid = 0;
  nlohmann::json* fields = nullptr;  // the whole event; the sink may change or take it
};

// All numbers are checked: times within -1e17 ... 2e18 ns (no sum of times, clocks and offsets overflows), pid and tid
// within 0 ... 2^31 - 1.
using TraceSink = std::function<Status(const TraceEvent&)>;

struct TraceLimits {
  std::uint64_t line_bytes = std::uint64_t{1} << 20;
  std::uint64_t foreign_bytes = std::uint64_t{1} << 30;  // of a file that is not Xoe's
  std::uint64_t events = std::uint64_t{1} << 25;
  int depth = 64;  // of brackets within an event
};

// What the header of a file says; nothing, where Xoe has not written it. `unavailable`: it cannot be opened.
Result<TraceInfo> read_trace_header(const std::string& path);

// `unavailable`: the file cannot be opened. `data_loss`: it is no trace, or damaged before its end; names the byte.
// `resource_exhausted`: it exceeds `limits`. Else the sink's error.
Result<TraceInfo> read_trace(const std::string& path, const TraceSink& sink, const TraceLimits& limits = {});

}  // namespace xoe::trace

// The pool's time. Nothing in the core reads a clock: every call is told the time, so that tests control it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace xoe::pool {

using Span = std::chrono::milliseconds;
using Time = std::chrono::sys_time<Span>;

inline std::int64_t to_number(Time time) { return time.time_since_epoch().count(); }
inline Time to_time(std::int64_t milliseconds) { return Time(Span(milliseconds)); }
inline Time system_now() { return std::chrono::floor<Span>(std::chrono::system_clock::now()); }

inline Time hour_of(Time time) { return std::chrono::floor<std::chrono::hours>(time); }

// "2026-12-01 14:05:00 UTC"
std::string time_text(Time time);
// "4 h", "1 h 30 min", "45 s"
std::string span_text(Span span);

}  // namespace xoe::pool

// What happened when, on which rank: a trace in Chrome's JSON format, for Perfetto, chrome://tracing and TensorBoard.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe::engine {

// Nanoseconds of CLOCK_MONOTONIC, which all processes of a host share.
using TimelineClock = std::chrono::steady_clock;

// All ranks of a host write into one file; each rank is a process of the trace, each lane a thread of it.
//
// Events gather in memory, in one buffer per recording thread, and reach the file at flush(): appended under a file
// lock, the closing brackets with them. So the file is valid JSON whenever no rank is just writing, also after errors
// and when a rank was killed; a half-written end that a killed rank left is cut off by the next one that writes.
//
// Thread safety: all but open() and the destructor may be called by any thread.
class Timeline {
 public:
  // Rank 0 passes create == true: makes an empty trace in place of an older file. The others join it, after rank 0
  // has made it. `unavailable` names the path and the reason.
  static Result<std::unique_ptr<Timeline>> open(const std::string& path, int rank, bool create);
  // Flushes; errors are lost here, so call flush() before.
  ~Timeline();

  // A row of the trace within this rank, shown in the order of its number.
  Status name_lane(int lane, std::string_view name);
  // Names that events show. The same name gives the same id.
  std::uint32_t intern(std::string_view name);

  // A bar from `start` to `stop`.
  void record(int lane, std::uint32_t name, TimelineClock::time_point start, TimelineClock::time_point stop);

  // Writes what was recorded. On an error (disk full) the file is as before, and this and later events are dropped.
  Status flush();
  // Events recorded and not yet written.
  std::size_t pending() const;

 private:
  class Core;
  explicit Timeline(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace xoe::engine

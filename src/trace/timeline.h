// What happened when, on which rank: a trace in Chrome's JSON format, for Perfetto, chrome://tracing and TensorBoard.
// The file: docs/formats/timeline.md. Names that the tools know: trace_names.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe::trace {

// Nanoseconds of CLOCK_MONOTONIC, which all processes of a host share.
using TimelineClock = std::chrono::steady_clock;

struct TimelineOptions {
  int rank = 0;
  int local_rank = -1;    // -1: not told
  std::string host = {};  // as people call this machine; empty: its own name
  // One rank of a host makes an empty trace in place of an older file. The others join it, after it was made.
  bool create = false;
  std::size_t buffer_events = std::size_t{1} << 15;  // of each recording thread; 64 bytes each, a power of two
};

struct TimelineArg {
  std::uint32_t key = 0;  // interned; 0: no argument
  std::int64_t value = 0;
};

// What viewers show with an event.
struct TimelineArgs {
  TimelineArg first = {};
  TimelineArg second = {};
  TimelineArg third = {};
  std::uint32_t note = 0;  // interned text; 0: none
};

// All ranks of a host write into one file; each rank is a process of the trace, each lane a thread of it.
//
// Events gather in memory, in one buffer per recording thread, and reach the file at flush(): appended under a file
// lock, the closing brackets with them. So the file is valid JSON whenever no rank is just writing, also after errors
// and when a rank was killed; a half-written end that a killed rank left is cut off by the next one that writes.
//
// Memory is bounded: whoever fills its buffer writes everything out itself, a few ms, so flush from elsewhere, in time.
// What cannot be written is counted, and an event "dropped events" tells how many.
//
// Thread safety: all but open() and the destructor may be called by any thread. Recording takes no lock. In a forked
// child nothing is written.
class Timeline {
 public:
  // `unavailable` names the path and the reason; `invalid_argument`: the file is another host's, whose clock is
  // another.
  static Result<std::unique_ptr<Timeline>> open(const std::string& path, const TimelineOptions& options);
  static Result<std::unique_ptr<Timeline>> open(const std::string& path, int rank, bool create);
  // Flushes; errors are lost here, so call flush() before.
  ~Timeline();

  // A row of the trace within this rank. The same name gives the same lane; the first 1000 names, then one for all.
  // Shown in the order of trace::lane_order(), then of appearance.
  int lane(std::string_view name);
  // A row with a number of the caller's, shown in the order of its number. Before the first lane(); not negative.
  Status name_lane(int lane, std::string_view name);
  // Names that events show. The same name gives the same id, never 0. At most 65534 of at most 1024 bytes: longer ones
  // are cut, later ones are all "(more names)".
  std::uint32_t intern(std::string_view name);

  // A bar from `start` to `stop`. The bars of a lane must nest or not overlap: viewers drop others.
  void record(int lane, std::uint32_t name, TimelineClock::time_point start, TimelineClock::time_point stop,
              const TimelineArgs& args = {});
  // A span that may overlap any other. `id` is one that no other span of this rank and category has.
  void record_span(std::uint32_t category, std::uint32_t name, std::uint64_t id, TimelineClock::time_point start,
                   TimelineClock::time_point stop, const TimelineArgs& args = {});
  // A moment.
  void mark(int lane, std::uint32_t name, TimelineClock::time_point at, const TimelineArgs& args = {});

  // What to add to this host's clock to get the reference host's, give or take `uncertainty`. The last one counts, for
  // the whole file. The reference host sets 0, 0.
  Status set_clock(std::chrono::nanoseconds offset, std::chrono::nanoseconds uncertainty);

  // Writes what was recorded. On an error (disk full) the file stays valid, and what it has no room for is dropped.
  Status flush();
  // Events recorded and not yet written.
  std::size_t pending() const;

 private:
  class Core;
  explicit Timeline(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

// `pattern` with each "{host}" replaced by `host`, made fit for a file name: for hosts that share a folder.
std::string timeline_path(std::string_view pattern, std::string_view host);

}  // namespace xoe::trace

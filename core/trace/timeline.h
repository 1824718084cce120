// Records a trace in Chrome's JSON format, for Perfetto and chrome://tracing: which rank did what and when.
// The file: docs/formats/timeline.md. Names that the tools know: trace/names.h.
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
  int local_rank = -1;    // -1: not recorded
  std::string host = {};  // the name to show for this machine; empty: its hostname
  std::string job = {};   // as TraceHeader has it
  // One rank of a host creates an empty trace in place of an older file; the others open it afterwards.
  bool create = false;
  std::size_t buffer_events = std::size_t{1} << 15;  // per recording thread; 64 bytes each, a power of two
};

struct TimelineArg {
  std::uint32_t key = 0;  // interned; 0: no argument
  std::int64_t value = 0;
};

// Arguments that viewers show with an event.
struct TimelineArgs {
  TimelineArg first = {};
  TimelineArg second = {};
  TimelineArg third = {};
  std::uint32_t note = 0;  // interned text; 0: none
};

// All ranks of a host write into one file; each rank is a process of the trace, each lane a thread of it.
//
// Events gather in memory, in one buffer per recording thread, and reach the file at flush(): appended under a file
// lock, together with the closing brackets. So the file is valid JSON while no rank is writing, also after errors and
// after a rank was killed; the next rank that writes cuts off half an event that a killed rank left.
//
// Memory is bounded: a thread that fills its buffer writes all buffers itself, which takes a few ms, so flush in time
// from another thread. Events that cannot be written are counted; an event "dropped events" has their number.
//
// Thread safety: any thread may call all members but open() and the destructor. Recording takes no lock. A forked child
// writes nothing.
class Timeline {
 public:
  // `unavailable`: names the path and the reason. `invalid_argument`: the file is of another host, with another clock.
  static Result<std::unique_ptr<Timeline>> open(const std::string& path, const TimelineOptions& options);
  // Flushes and ignores errors: call flush() before to see them.
  ~Timeline();

  // A row of the trace within this rank. The same name gives the same lane; after 1000 names all further ones share a
  // lane. Shown in the order of trace::lane_order(), then of appearance.
  int lane(std::string_view name);
  // A row whose number, not negative, the caller chooses; rows are shown in the order of numbers. Before the first
  // lane().
  Status name_lane(int lane, std::string_view name);
  // Names that events show. The same name gives the same id, never 0. At most 65534 of at most 1024 bytes: longer ones
  // are cut, further ones become "(more names)".
  std::uint32_t intern(std::string_view name);

  // A bar from `start` to `stop`. The bars of a lane must nest or not overlap: viewers drop others.
  void record(int lane, std::uint32_t name, TimelineClock::time_point start, TimelineClock::time_point stop,
              const TimelineArgs& args = {});
  // A span that may overlap others. id: unique among the spans of this rank and category.
  void record_span(std::uint32_t category, std::uint32_t name, std::uint64_t id, TimelineClock::time_point start,
                   TimelineClock::time_point stop, const TimelineArgs& args = {});
  // An instant.
  void mark(int lane, std::uint32_t name, TimelineClock::time_point at, const TimelineArgs& args = {});

  // offset: add it to this host's clock to get the reference host's, within `uncertainty`. The last call holds for the
  // whole file. The reference host sets 0, 0.
  Status set_clock(std::chrono::nanoseconds offset, std::chrono::nanoseconds uncertainty);

  // Writes recorded events. On an error (disk full) the file stays valid, and events that did not fit are dropped.
  Status flush();
  // Events recorded and not yet written.
  std::size_t pending() const;

 private:
  class Core;
  explicit Timeline(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

// `pattern` with each "{host}" replaced by `host`, changed to suit a file name: for hosts that share a folder.
std::string timeline_path(std::string_view pattern, std::string_view host);

}  // namespace xoe::trace

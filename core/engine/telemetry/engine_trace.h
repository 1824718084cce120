// Records the engine's events while a timeline is on.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/comm/world_history.h"
#include "core/engine/execute/batch/batch.h"
#include "core/engine/submission/submission.h"
#include "core/trace/timeline.h"
#include "xoe/communicator.h"

namespace xoe::engine {

// Collective: all ranks exchange their times a few times; the quickest round counts. Of ranks that were in an earlier
// world the first gives the reference, so that it stays the same when rank 0's host is another one. hosts: of each
// rank.
Result<ClockOffset> measure_clock(Communicator& comm, std::span<const int> hosts,
                                  const std::optional<ClockOffset>& earlier);

// Thread safety: start() and stop() one at a time; all else by any thread.
class EngineTrace {
 public:
  // host: the index of this one among the world's `hosts`. warn: told once when events are lost; outlives this.
  // clock: nullopt: it is not known, and the timeline's file keeps what it has.
  EngineTrace(const Topology& topology, int host, int hosts, const std::optional<ClockOffset>& clock,
              const std::function<void(std::string_view)>& warn)
      : topology_(topology), host_(host), hosts_(hosts), clock_(clock), warn_(warn) {}
  ~EngineTrace();

  // How the world came about: a bar of the timeline, once one is on. Before any other call.
  void came_about(std::optional<WorldMark> mark) { mark_ = std::move(mark); }
  // Local rank 0 calls before the others of its host do. create: in place of an older file.
  Status start(const std::string& path, bool create);
  // Tells whether another process of this job has written to the timeline of this host.
  bool is_of_this_job(const std::string& path) const;
  Status stop();
  bool on() const noexcept { return on_.load(std::memory_order_acquire); }

  // What the thread that makes progress records, on one timeline, without a lock for each event.
  class Recorder;
  Recorder recorder();
  void batch_done(const Batch& batch);
  void mark(std::string_view lane, std::string_view name, TimePoint start, TimePoint stop);
  // Writes recorded events, if there are enough of them.
  void flush_if_full();

 private:
  // A timeline and the ids of names in it.
  struct Open {
    std::unique_ptr<trace::Timeline> timeline;
    int pack = 0, reduce = 0, unpack = 0;             // lanes
    std::uint32_t negotiate = 0, queue = 0;           // categories
    std::uint32_t batch = 0, tensors = 0, bytes = 0;  // keys
    std::uint32_t left_out = 0;                       // an event
    std::vector<std::uint32_t> waited_for = {};       // notes, by rank
    std::uint32_t number = 0;                         // of this timeline among those of the process
    // The interned name, which the submission remembers.
    std::uint32_t name_of(Submission& submission) const;
  };
  std::shared_ptr<const Open> open() const;
  // "trace.{host}.json" for several hosts, also if the path has no "{host}".
  std::string path_of_host(const std::string& path) const;
  void flush(const Open& open);
  // Whether the spans of one more tensor are recorded.
  bool spend(const Open& open, TimePoint now);
  // Records how many tensors have no spans, since it was last told.
  void tell_left_out(const Open& open, TimePoint now);

  const Topology topology_;
  const int host_;
  const int hosts_;
  const std::optional<ClockOffset> clock_;
  const std::function<void(std::string_view)>& warn_;
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<const Open> open_;
  std::atomic<bool> warned_{false};
  const pid_t process_ = ::getpid();  // a forked child writes nothing
  std::optional<WorldMark> mark_;
  std::uint32_t timelines_ = 0;
  std::atomic<std::int64_t> left_out_{0};  // tensors
  // Only of the thread that makes progress.
  // Other than those of earlier worlds, which may be in the same file.
  std::uint64_t spans_ = static_cast<std::uint64_t>(WorldHistory::of_process().version()) << 32;
  std::int64_t batches_ = 0;
  TimePoint ration_began_{};
  std::int64_t ration_left_ = 0;  // tensors
  TimePoint reduced_until_{}, unpacked_until_{};
};

class EngineTrace::Recorder {
 public:
  // All ranks have submitted the operation, `last` as the last one, for which this rank has waited.
  void agreed(Submission& submission, int last, std::chrono::nanoseconds waited);

 private:
  friend EngineTrace;
  Recorder(EngineTrace& trace, std::shared_ptr<const Open> open) : trace_(trace), open_(std::move(open)) {}
  EngineTrace& trace_;
  std::shared_ptr<const Open> open_;  // null: no timeline is on
};

}  // namespace xoe::engine

// The processes of a running job, on this host or on several.
#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/output/panel.h"
#include "launch/output/stream.h"
#include "launch/supervise/supervisor.h"

namespace xoe::launch {

class JobProcesses {
 public:
  using Clock = std::chrono::steady_clock;
  // Between looks at a terminal whose input the job may not read in the background.
  static constexpr auto kBackgroundTurn = std::chrono::milliseconds(300);
  virtual ~JobProcesses() = default;

  virtual void send(SupervisorCommand command) = 0;
  // Tells the ranks that the world has this version, and which slots are in it: where their number may change. The
  // store has it already.
  virtual void publish_world(int version, std::span<const int> slots) = 0;
  // Whether the rank was started with the job.
  virtual bool is_started(int rank) const = 0;
  // Places for ranks; their number may grow.
  virtual int slots() const = 0;
  // Whether ranks can be started on the host.
  virtual bool has_host(std::size_t host) const = 0;
  // The slots of a host.
  virtual std::vector<int> slots_of(std::size_t host) const = 0;
  // No rank will be started on the host any more: it is let go when its processes have ended.
  virtual void release_host(std::size_t host) = 0;
  // After kHostStays: the host had not begun to leave.
  virtual void keep_host(std::size_t host) = 0;
  // The next event; kAllGone is the last one.
  virtual std::optional<SupervisorEvent> next() = 0;
  // Before and after a time in which the launcher is stopped.
  virtual void pause() = 0;
  virtual void resume() = 0;

  // After kAllGone: whether output may still come. Closes streams that stay silent.
  virtual bool output_open(Clock::time_point now) = 0;
  virtual void close_input() = 0;
  virtual const Stream& stream_of(std::size_t rank, bool err) const = 0;
  virtual std::vector<std::string> file_errors() const = 0;
  virtual std::string host_of(int rank) const = 0;
  // The index, in events, of the host that the rank is on.
  virtual std::size_t host_index(int rank) const = 0;
  // By the index in events.
  virtual std::string host_name(std::size_t host) const = 0;
  // Messages about hosts that were lost, since the last call.
  virtual std::vector<std::string> take_host_failures() = 0;
  // After kReport, which asks all hosts for what has happened there, since a cause may be heard of later than its
  // effect: whether one has not answered yet; afterwards, how long a host took to.
  virtual bool awaits_news() const = 0;
  virtual Clock::duration lateness(std::size_t host) const = 0;
  // Of each rank, for the panel; empty: none is wanted.
  virtual std::vector<RankSample> samples(Clock::time_point now) const = 0;

  // Before and after poll(): adds descriptors, then remembers which are ready, then moves the bytes.
  virtual void add_to(std::vector<pollfd>& polled) = 0;
  virtual void take(const std::vector<pollfd>& polled, Clock::time_point now) = 0;
  virtual void pump() = 0;
  // When it needs a turn though no descriptor is ready.
  virtual std::optional<Clock::time_point> next_turn(Clock::time_point now) const = 0;
};

}  // namespace xoe::launch

// All streams of a job: what ranks write, and what rank 0 reads.
#pragma once

#include <poll.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/options.h"
#include "launch/output.h"
#include "launch/plan.h"
#include "launch/spawn.h"
#include "launch/stdin_relay.h"
#include "launch/stream.h"
#include "xoe/status.h"

namespace xoe::launch {

class JobStreams {
 public:
  using Clock = std::chrono::steady_clock;
  JobStreams(std::vector<Stream> streams, StdinRelay relay)
      : streams_(std::move(streams)), relay_(std::move(relay)), heard_(streams_.size()) {}

  const Stream& of(std::size_t rank, bool err) const { return streams_[2 * rank + (err ? 1 : 0)]; }
  bool open() const;
  void close_input() { relay_.close(); }
  // From now on nobody is expected to write; somebody else may still hold a pipe open.
  void begin_drain(Clock::time_point now);
  // After begin_drain(): closes streams that could be read all the time and gave nothing for so long. One whose bytes
  // nobody takes does not count as silent.
  void close_silent(Clock::time_point now, Clock::duration patience);
  // When close_silent() will next have something to close.
  std::optional<Clock::time_point> next_silent(Clock::duration patience) const;
  bool in_background() const { return relay_.in_background(); }
  std::vector<std::string> file_errors() const;
  // What the guardian must not keep open.
  std::vector<int> descriptors() const;

  // Around poll(): adds what to wait for, then remembers what is ready, then moves the bytes.
  void add_to(std::vector<pollfd>& polled);
  void take(const std::vector<pollfd>& polled, Clock::time_point now);
  void pump();

 private:
  std::vector<Stream> streams_;  // stdout of rank 0, its stderr, stdout of rank 1, ...
  StdinRelay relay_;
  std::vector<Clock::time_point> heard_;  // when each stream gave something, or could not be read
  std::size_t first_ = 0;                 // of our entries in `polled`
  std::vector<std::size_t> waiting_;      // the stream of each entry; kInput and kRelay for the two ends of the relay
  std::vector<std::size_t> ready_;
};

// The ranks' ends.
struct RankEnds {
  Fd in = {};  // invalid: the launcher's own stdin
  Fd out = {};
  Fd err = {};
};

struct OpenedStreams {
  JobStreams streams;
  std::vector<RankEnds> ends;
};

// The two ends of a pipe, reading first.
Result<std::array<Fd, 2>> open_pipe();

// Pipes, and the files of --output-dir. `output` outlives the streams.
Result<OpenedStreams> open_streams(const RunOptions& options, Output& output);

// The same without pipes, for bytes that come from other hosts: stdout and stderr of each rank.
Result<std::vector<Stream>> open_remote_streams(const RunOptions& options, Output& output);

// Raises the limit on open files when the job needs more, and returns the limit as it was: ranks get that one.
Result<rlimit> allow_open_files(int ranks);

// The C strings behind the requests to start ranks.
class RankCommands {
 public:
  RankCommands(const JobPlan& plan, const std::vector<RankEnds>& ends, const sigset_t& mask, const rlimit& open_files);
  // Valid for as long as this and the plan.
  const std::vector<SpawnRequest>& requests() const noexcept { return requests_; }

 private:
  std::vector<char*> argv_;
  std::vector<char*> shell_argv_;
  std::vector<std::vector<char*>> environments_;
  std::vector<SpawnRequest> requests_;
};

}  // namespace xoe::launch

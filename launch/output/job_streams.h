// All streams of a job on this host: the ranks' output, and rank 0's input.
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bootstrap/status_page.h"
#include "launch/options/options.h"
#include "launch/output/output.h"
#include "launch/output/stdin_relay.h"
#include "launch/output/stream.h"
#include "launch/plan/job_plan.h"
#include "launch/remote/spawn.h"
#include "xoe/status.h"

namespace xoe::launch {

// After all processes of a job are gone, a pipe that stays open and silent for this long is held by a process outside
// of the job.
inline constexpr auto kDrainTimeout = std::chrono::seconds(1);

class JobStreams {
 public:
  using Clock = std::chrono::steady_clock;
  JobStreams(std::vector<Stream> streams, StdinRelay relay)
      : streams_(std::move(streams)), relay_(std::move(relay)), heard_(streams_.size()) {}

  const Stream& of(std::size_t rank, bool err) const { return streams_[2 * rank + (err ? 1 : 0)]; }
  bool open() const;
  void close_input() { relay_.close(); }
  // From now on no process of the job is left to write; another process may still hold a pipe open.
  void begin_drain(Clock::time_point now);
  // After begin_drain(): closes streams that were read and gave nothing for `timeout`. A stream that was not read
  // because its sink is full does not count as silent.
  void close_silent(Clock::time_point now, Clock::duration timeout);
  // When close_silent() will next have something to close.
  std::optional<Clock::time_point> next_silent(Clock::duration timeout) const;
  // When pump() will next have something to do though no stream is ready.
  std::optional<Clock::time_point> next_flush() const { return first_flush(streams_); }
  bool in_background() const { return relay_.in_background(); }
  std::vector<std::string> file_errors() const { return file_errors_of(streams_); }
  // Our ends of the pipes, which the supervisor must not keep open.
  std::vector<int> descriptors() const;

  // Before and after poll(): adds descriptors, then remembers which are ready, then moves the bytes.
  void add_to(std::vector<pollfd>& polled);
  void take(const std::vector<pollfd>& polled, Clock::time_point now);
  void pump();

 private:
  std::vector<Stream> streams_;  // stdout of rank 0, its stderr, stdout of rank 1, ...
  StdinRelay relay_;
  std::vector<Clock::time_point> heard_;  // when each stream last gave bytes, or was not read
  std::size_t first_ = 0;                 // of our entries in `polled`
  std::vector<std::size_t> waiting_;      // the stream of each entry; kInput and kRelay: the ends of the relay
  std::vector<std::size_t> ready_;
  std::size_t turn_ = 0;  // of pump()
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

// Pipes, and the files of --output-dir, which begin empty; with --rendezvous, whose rounds share them, output is added
// to what they have. `output` outlives the streams.
Result<OpenedStreams> open_streams(const RunOptions& options, Output& output);

// The same without pipes, for output of ranks on other hosts: stdout and stderr of each slot.
Result<std::vector<Stream>> open_remote_streams(const RunOptions& options, int slots, Output& output);

// A file of --output-dir; without it invalid.
struct OutputFile {
  Fd fd = {};
  std::string path = {};
};

// `again`: the rank was there before, and its output goes on.
Result<OutputFile> open_output_file(const RunOptions& options, int rank, bool err, bool again);

// The stream of a rank, with its tag, to where it is shown: a rank that --only-rank does not name is shown nowhere.
Stream stream_to(const RunOptions& options, int rank, bool err, Output& output, Fd pipe = {}, OutputFile file = {});

// The C strings behind the requests to start ranks. A rank whose plan tells it of a terminal hears by which pipe its
// stdout gets there, so that a program behind a pipe or a file of the rank's own does not draw there; one whose plan
// asks for its status hears where the page is.
class RankCommands {
 public:
  // world_path: of the page for ranks whose number may change; empty: there is none.
  RankCommands(const JobPlan& plan, const std::vector<RankEnds>& ends, const remote::Inherited& inherited,
               std::string_view status_path, std::string_view world_path = {});
  // Valid as long as this and the plan.
  const std::vector<remote::SpawnRequest>& requests() const noexcept { return requests_; }

 private:
  std::string status_;  // the variables
  std::string world_;
  std::vector<char*> argv_;
  std::vector<char*> shell_argv_;
  std::vector<std::string> terminals_;  // of each rank: the variable that tells of the pipe
  std::vector<std::vector<char*>> environments_;
  std::vector<remote::SpawnRequest> requests_;
};

}  // namespace xoe::launch

// The pipes between an agent and its ranks.
#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "launch/output/job_streams.h"
#include "launch/plan/agent_job.h"
#include "launch/remote/frame_connection.h"
#include "xoe/status.h"

namespace xoe::launch {

class AgentStreams {
 public:
  using Clock = std::chrono::steady_clock;
  // Streams of these ranks; `ends` receives the ranks' ends. Rank 0 reads what feed() gives it.
  static Result<AgentStreams> open(const std::vector<AgentRank>& ranks, std::vector<RankEnds>& ends);
  // From now on all output goes there, too, in whole lines. `output` outlives this.
  void copy_to(Output& output, const RunOptions& options);

  std::vector<int> descriptors() const;
  void feed(std::string_view input) { input_.append(input); }
  void end_input() { input_ended_ = true; }
  void close_input() { input_end_ = Fd(); }
  void credit(std::int64_t bytes) { credit_ += bytes; }
  // After all processes are gone: closes pipes that stay open and silent, because a process outside of the job holds
  // them.
  void drain(Clock::time_point now);
  bool open() const;

  // Before and after poll(); pump() moves bytes to and from `launcher`.
  void add_to(std::vector<pollfd>& polled);
  void pump(const std::vector<pollfd>& polled, remote::FrameConnection& launcher, Clock::time_point now);

 private:
  struct Stream {
    Fd fd;
    int rank = 0;
    bool err = false;
    Clock::time_point heard = {};
  };
  bool may_read(const Stream& stream) const;
  void close(std::size_t stream);
  void read(std::size_t stream, remote::FrameConnection& launcher, Clock::time_point now);
  void write_input(remote::FrameConnection& launcher);

  std::vector<Stream> streams_;
  Output* output_ = nullptr;
  std::vector<launch::Stream> copies_;  // of each of streams_, if there is an output
  Fd input_end_;
  std::string input_;
  bool input_ended_ = false;
  std::int64_t credit_ = remote::kOutputWindow;
  std::size_t first_ = 0;  // of our entries in `polled`
  std::vector<std::size_t> waiting_;
  std::size_t turn_ = 0;  // of pump()
  bool draining_ = false;
};

}  // namespace xoe::launch

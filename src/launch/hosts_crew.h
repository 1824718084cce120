// A job's processes on several hosts, behind their agents.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "launch/crew.h"
#include "launch/host_failure.h"
#include "launch/host_link.h"
#include "launch/options.h"
#include "launch/output.h"
#include "launch/stdin_feed.h"

namespace xoe::launch {

class HostsCrew : public Crew {
 public:
  // `links`: their agents were told to start. `streams`: stdout and stderr of each rank. All references outlive this.
  HostsCrew(const RunOptions& options, HostLinks links, std::vector<Stream> streams, Output& output);
  ~HostsCrew() override { part_from(links_); }

  void send(GuardianCommand command) override;
  std::optional<GuardianEvent> next() override;
  bool lost() const override { return guardian_lost_; }
  void pause() override;
  void resume() override;
  bool output_open(Clock::time_point now) override;
  void close_input() override { input_.close(); }
  const Stream& of(std::size_t rank, bool err) const override { return streams_[2 * rank + (err ? 1 : 0)]; }
  std::vector<std::string> file_errors() const override;
  std::string host_of(int rank) const override;
  std::vector<std::string> host_failures() const override { return failures_; }
  void add_to(std::vector<pollfd>& polled) override;
  void take(const std::vector<pollfd>& polled, Clock::time_point now) override;
  void pump() override;
  std::optional<Clock::time_point> next_turn(Clock::time_point now) const override;

 private:
  struct Member {
    int unfinished = 0;      // ranks
    std::int64_t owed = 0;   // bytes of output that were taken, which its agent does not know yet
    bool gone = false;       // nothing of the job is left there
    std::size_t behind = 0;  // hosts that it reaches for us and that we have not hung up on
    bool needed() const { return !gone || behind > 0; }
  };
  void listen_to(std::size_t host, Clock::time_point now);
  void on_frame(std::size_t host, const AgentFrame& frame);
  void on_output(std::size_t host, const AgentFrame& frame);
  void lose(std::size_t host, HostFailure failure);
  void leave(std::size_t host);
  void part(std::size_t host);
  void tell_all(const AgentFrame& frame);
  void restart(int rank);
  bool owns(std::size_t host, std::int64_t rank) const;

  const RunOptions& options_;
  Output& output_;
  HostLinks links_;
  std::vector<Member> members_;
  std::vector<std::size_t> host_of_;  // of each rank
  std::vector<Stream> streams_;
  StdinFeed input_;
  std::deque<GuardianEvent> events_;
  std::vector<std::string> failures_;
  bool guardian_lost_ = false;
  std::size_t left_;  // hosts that are not gone
};

}  // namespace xoe::launch

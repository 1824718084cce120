// A job's processes on this host, behind their guardian.
#pragma once

#include "launch/crew.h"
#include "launch/guardian_link.h"
#include "launch/job_streams.h"

namespace xoe::launch {

class LocalCrew : public Crew {
 public:
  LocalCrew(GuardianLink guardian, JobStreams streams) : guardian_(std::move(guardian)), streams_(std::move(streams)) {}

  void send(GuardianCommand command) override { guardian_.send(command); }
  std::optional<GuardianEvent> next() override;
  bool lost() const override { return guardian_.lost(); }
  void pause() override {}
  void resume() override {}
  bool output_open(Clock::time_point now) override;
  void close_input() override { streams_.close_input(); }
  const Stream& of(std::size_t rank, bool err) const override { return streams_.of(rank, err); }
  std::vector<std::string> file_errors() const override { return streams_.file_errors(); }
  std::string host_of(int rank) const override;
  std::vector<std::string> host_failures() const override { return {}; }
  void add_to(std::vector<pollfd>& polled) override;
  void take(const std::vector<pollfd>& polled, Clock::time_point now) override { streams_.take(polled, now); }
  void pump() override { streams_.pump(); }
  std::optional<Clock::time_point> next_turn(Clock::time_point now) const override;

 private:
  GuardianLink guardian_;
  JobStreams streams_;
  bool gone_ = false;
};

}  // namespace xoe::launch

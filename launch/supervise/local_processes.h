// A job's processes on this host, behind their supervisor.
#pragma once

#include "core/bootstrap/status_page.h"
#include "core/bootstrap/world_page.h"
#include "launch/output/job_streams.h"
#include "launch/supervise/job_processes.h"
#include "launch/supervise/supervisor_link.h"

namespace xoe::launch {

class LocalProcesses : public JobProcesses {
 public:
  // `started`: ranks, which run already. `slots`: places for them. `world`: where their number may change.
  LocalProcesses(SupervisorLink supervisor, JobStreams streams, std::optional<bootstrap::StatusPage> status,
                 std::optional<bootstrap::WorldPage> world, int started, int slots)
      : supervisor_(std::move(supervisor)),
        streams_(std::move(streams)),
        status_(std::move(status)),
        world_(std::move(world)),
        started_(started),
        slots_(slots) {}

  void send(SupervisorCommand command) override { supervisor_.send(command); }
  void publish_world(int version, std::span<const int> slots) override {
    if (world_) world_->publish(version, slots);
  }
  bool is_started(int rank) const override { return rank < started_; }
  int slots() const override { return slots_; }
  bool has_host(std::size_t /*host*/) const override { return true; }
  std::vector<int> slots_of(std::size_t host) const override;
  void release_host(std::size_t /*host*/) override {}
  void keep_host(std::size_t /*host*/) override {}
  std::optional<SupervisorEvent> next() override;
  void pause() override {}
  void resume() override {}
  bool output_open(Clock::time_point now) override;
  void close_input() override { streams_.close_input(); }
  const Stream& stream_of(std::size_t rank, bool err) const override { return streams_.of(rank, err); }
  std::vector<std::string> file_errors() const override { return streams_.file_errors(); }
  std::string host_of(int /*rank*/) const override { return remote::this_hostname(); }
  std::size_t host_index(int /*rank*/) const override { return 0; }
  std::string host_name(std::size_t /*host*/) const override { return remote::this_hostname(); }
  std::vector<std::string> take_host_failures() override { return {}; }
  // The supervisor tells of the ranks in the order in which they ended.
  bool awaits_news() const override { return false; }
  Clock::duration lateness(std::size_t /*host*/) const override { return {}; }
  std::vector<RankSample> samples(Clock::time_point now) const override;
  void add_to(std::vector<pollfd>& polled) override;
  void take(const std::vector<pollfd>& polled, Clock::time_point now) override { streams_.take(polled, now); }
  void pump() override { streams_.pump(); }
  std::optional<Clock::time_point> next_turn(Clock::time_point now) const override;

 private:
  SupervisorLink supervisor_;
  JobStreams streams_;
  std::optional<bootstrap::StatusPage> status_;
  std::optional<bootstrap::WorldPage> world_;
  int started_;
  int slots_;
  bool gone_ = false;
};

}  // namespace xoe::launch

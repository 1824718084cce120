// A job's processes on several hosts, behind their agents.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/agents/elastic_hosts.h"
#include "launch/output/output.h"
#include "launch/output/stdin_feed.h"
#include "launch/plan/hosts_plan.h"
#include "launch/remote/host_clock.h"
#include "launch/remote/host_failure.h"
#include "launch/supervise/job_processes.h"

namespace xoe::launch {

class RemoteProcesses : public JobProcesses {
 public:
  // `agents`: of the shares, after kStart was sent. `streams`: stdout and stderr of each rank. All references outlive
  // this. Agents that joined stay connected at the end: they are to be told how it ended.
  // `there`: hosts of the shares that could be reached. `elastic`: where hosts come and go.
  RemoteProcesses(const RunOptions& options, std::vector<HostShare> shares, remote::AgentConnections& agents,
                  std::vector<bool> there, std::vector<Stream> streams, Output& output,
                  std::unique_ptr<ElasticHosts> elastic = {});

  void send(SupervisorCommand command) override;
  void publish_world(int version, std::span<const int> slots) override;
  bool is_started(int rank) const override {
    return rank < options_.size && has_host(host_of_[static_cast<std::size_t>(rank)]);
  }
  int slots() const override { return static_cast<int>(host_of_.size()); }
  bool has_host(std::size_t host) const override { return !hosts_[host].gone && !hosts_[host].failed; }
  std::vector<int> slots_of(std::size_t host) const override;
  void release_host(std::size_t host) override;
  void keep_host(std::size_t host) override {
    if (elastic_) elastic_->note_there(shares_[host].host.name);
  }
  std::optional<SupervisorEvent> next() override;
  void pause() override;
  void resume() override;
  bool output_open(Clock::time_point now) override;
  void close_input() override { input_.close(); }
  const Stream& stream_of(std::size_t rank, bool err) const override { return streams_[2 * rank + (err ? 1 : 0)]; }
  std::vector<std::string> file_errors() const override { return file_errors_of(streams_); }
  std::string host_of(int rank) const override;
  std::size_t host_index(int rank) const override { return host_of_[static_cast<std::size_t>(rank)]; }
  std::string host_name(std::size_t host) const override { return agents_[host]->host(); }
  std::vector<std::string> take_host_failures() override { return std::exchange(failures_, {}); }
  bool awaits_news() const override { return std::ranges::any_of(hosts_, &HostProgress::awaits_report); }
  Clock::duration lateness(std::size_t host) const override {
    return host < hosts_.size() ? hosts_[host].lateness : Clock::duration();
  }
  std::vector<RankSample> samples(Clock::time_point /*now*/) const override { return samples_; }
  void add_to(std::vector<pollfd>& polled) override;
  void take(const std::vector<pollfd>& polled, Clock::time_point now) override;
  void pump() override;
  std::optional<Clock::time_point> next_turn(Clock::time_point now) const override;

 private:
  struct HostProgress {
    remote::HostClock clock = {};
    int unfinished = 0;                           // ranks
    std::int64_t owed = 0;                        // bytes of output that were taken and not acknowledged yet
    std::optional<Clock::time_point> asked = {};  // for a report
    Clock::duration lateness = {};                // by so much earlier than told an event may have happened
    std::optional<Clock::duration> offset = {};   // of its clock, the largest by which an event's time was reckoned
    bool all_gone = false;                        // it was told so; `gone` waits for the report that was asked for
    bool gone = false;                            // no process of the job is left there
    bool failed = false;                          // its ranks are lost already; its agent ends what is left there
    bool leaving = false;                         // it was let go: its end is none of a lost host
    std::size_t behind = 0;                       // hosts that it reaches and that are still connected
    bool needed() const { return !gone || behind > 0; }
    bool awaits_report() const { return asked && !gone; }
  };
  void notice_standstill(Clock::time_point now);
  void serve(std::size_t host, Clock::time_point now);
  void on_frame(std::size_t host, const remote::Frame& frame, Clock::time_point now);
  void on_departing(std::size_t host, const remote::Frame& frame, Clock::time_point now);
  void on_ended(std::size_t host, const remote::Frame& frame);
  void on_output(std::size_t host, const remote::Frame& frame);
  void on_status(std::size_t host, const remote::Frame& frame);
  void lose_host(std::size_t host, remote::HostFailure failure);
  void mark_gone(std::size_t host);
  void part_from(std::size_t host);
  void disconnect_unneeded(std::size_t host);
  void send_to_all(const remote::Frame& frame);
  void send_to_rank(remote::Frame::Kind kind, int rank, int value = 0);
  void take_newcomers(Clock::time_point now);
  void take_in(ElasticHosts::Came came);
  void make_room(int slots);
  void close_streams(int rank);
  void ask_for_news();
  bool owns(std::size_t host, std::int64_t rank) const;
  // When that host's clock showed `stamp`.
  Clock::time_point event_time(std::size_t host, std::int64_t stamp);
  void on_reported(std::size_t host, Clock::time_point now);

  const RunOptions& options_;
  const remote::ConnectOptions& connect_;
  Output& output_;
  std::vector<HostShare> shares_;
  remote::AgentConnections& agents_;
  std::vector<HostProgress> hosts_;
  std::vector<std::size_t> host_of_;  // of each rank
  std::vector<Stream> streams_;
  StdinFeed input_;
  std::deque<SupervisorEvent> events_;
  std::vector<RankSample> samples_;
  std::vector<std::string> failures_;
  std::unique_ptr<ElasticHosts> elastic_;
  std::size_t remaining_ = 0;  // hosts that are not gone
  Clock::time_point looked_ = Clock::now();
};

}  // namespace xoe::launch

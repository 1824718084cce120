// Hosts that are to leave a job which goes on without them.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/supervise/job_processes.h"
#include "launch/supervise/resizing.h"
#include "launch/supervise/supervisor.h"

namespace xoe::launch {

// One thread at a time.
class Departures {
 public:
  using Clock = std::chrono::steady_clock;
  // Where every host is to leave, and no other one has come, the ranks are told so long before the first is gone.
  static constexpr auto kTimeToSave = std::chrono::seconds(30);

  // left: called with each host that begins to leave; tell: shows a line to the user. Both objects outlive this.
  Departures(Resizing& resizing, JobProcesses& processes, std::function<void(std::size_t host)> left,
             std::function<void(std::string line)> tell)
      : resizing_(resizing), processes_(processes), left_(std::move(left)), tell_(std::move(tell)) {}

  // kHostGoes. Where the job cannot go on without the host, it stays until others have come.
  void add(const SupervisorEvent& departure);
  // kHostStays.
  void keep(std::size_t host);
  // Lets those go that the job can do without by now.
  void look();
  // When the ranks have to save what they have, because all hosts will be gone; nullopt: not as far as is known.
  std::optional<Clock::time_point> save_at() const;

 private:
  // True: it leaves, or is gone.
  bool try_to_let_go(const SupervisorEvent& departure);

  Resizing& resizing_;
  JobProcesses& processes_;
  std::function<void(std::size_t host)> left_;
  std::function<void(std::string line)> tell_;
  std::vector<SupervisorEvent> waiting_;  // for others to come
};

}  // namespace xoe::launch

// Asks the user's program which hosts there are.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/options/options.h"
#include "launch/remote/child_process.h"

namespace xoe::launch {

// A line for each host: "HOST" or "HOST:SLOTS"; empty lines count for nothing. `invalid_argument` quotes the line.
Result<std::vector<remote::Host>> parse_discovered(std::string_view text, int slots_per_host);

// One thread at a time; the caller blocks or ignores SIGPIPE.
class HostDiscovery {
 public:
  using Clock = std::chrono::steady_clock;
  // `inherited` outlives this.
  HostDiscovery(const ElasticOptions& options, const remote::Inherited& inherited);

  // Before and after poll().
  void add_to(std::vector<pollfd>& polled) const;
  void pump(Clock::time_point now);
  // When it needs a turn though no descriptor is ready.
  Clock::time_point next_turn() const;
  // The hosts of the last answer, once; nullopt: there is none since the last call.
  std::optional<std::vector<remote::Host>> take() { return std::exchange(answer_, std::nullopt); }
  // Why there is no answer, once for each reason: the hosts stay those that were named last.
  std::optional<std::string> take_problem() { return std::exchange(problem_, std::nullopt); }
  // Why asking again cannot help, after the last answer: the program is not there, or may not be executed. Else
  // nullopt.
  const std::optional<std::string>& hopeless() const noexcept { return hopeless_; }

 private:
  void start(Clock::time_point now);
  void end(Clock::time_point now);
  void complain(std::string why);
  std::optional<std::string> why_hopeless(int status) const;

  const ElasticOptions& options_;
  const remote::Inherited& inherited_;
  std::optional<remote::StartedChild> child_;
  std::string out_, err_;
  Clock::time_point started_ = {};
  Clock::time_point next_ = Clock::now();
  std::optional<std::vector<remote::Host>> answer_;
  std::optional<std::string> problem_;
  std::string complained_;
  std::optional<std::string> hopeless_;
};

}  // namespace xoe::launch

#include "measure/cli/failures/failure_runs.h"

#include <poll.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"
#include "measure/cli/failures/kill_schedule.h"
#include "measure/cli/failures/watched_training.h"

namespace xoe::bench {
namespace {

using Clock = WatchedTraining::Clock;

constexpr int kMostFruitless = 3;  // starts one after the other that end by themselves without a step
constexpr auto kEndOfTraining = std::chrono::seconds(60);
constexpr auto kProgressEvery = std::chrono::seconds(30);

class Runner {
 public:
  Runner(const FailureWay& way, const FailureOptions& options, double mean_seconds, int stop,
         const std::function<void(const std::string& line)>& tell)
      : way_(way), options_(options), stop_(stop), tell_(tell), run_{.way = way.name, .mean_seconds = mean_seconds} {
    if (mean_seconds <= 0) return;
    schedule_.emplace(mean_seconds, options.ranks, options.seed);
    next_ = schedule_->next();
  }

  Result<FailureRun> run() {
    while (done_ < options_.steps) {
      if (!training_) XOE_TRY(start());
      const bool runs = training_->wait(std::min({silent_at_, tell_at_, kill_at().value_or(silent_at_)}), stop_);
      if (is_stopped()) return failure(Code::kUnavailable, "{}: ended by a signal", way_.name);
      take_steps();
      tell_progress();
      if (done_ >= options_.steps) break;
      if (!runs)
        XOE_TRY(note_end());
      else if (const auto at = kill_at(); at && Clock::now() >= *at)
        kill();
      else if (Clock::now() >= silent_at_)
        return failure(Code::kUnavailable, "{}: no step for {:g} s; it {}", way_.name, options_.silence,
                       training_->describe_end());
    }
    training_->finish(kEndOfTraining);
    return run_;
  }

 private:
  Status start() {
    XOE_ASSIGN(auto training, WatchedTraining::start(way_.words));
    training_.emplace(std::move(training));
    ++run_.starts;
    fruitless_ = true;
    hear();
    return {};
  }

  bool is_stopped() const {
    pollfd entry{.fd = stop_, .events = POLLIN, .revents = 0};
    return stop_ >= 0 && ::poll(&entry, 1, 0) == 1;
  }

  void tell_progress() {
    if (!tell_ || Clock::now() < tell_at_) return;
    tell_at_ = Clock::now() + kProgressEvery;
    tell_(fmt::format("{} of {}, {}", done_, counted(options_.steps, "step"), counted(run_.kills, "kill")));
  }

  void hear() {
    silent_at_ = Clock::now() + std::chrono::round<Clock::duration>(std::chrono::duration<double>(options_.silence));
  }

  std::optional<Clock::time_point> kill_at() const {
    if (!schedule_ || !began_) return std::nullopt;
    return *began_ + std::chrono::round<Clock::duration>(std::chrono::duration<double>(next_.seconds));
  }

  void take_steps() {
    for (const StepDone& one : training_->take_steps()) {
      if (!began_) began_ = one.at;
      if (one.step <= last_) run_.redone += last_ - one.step + 1;
      last_ = one.step;
      fruitless_ = false;
      starts_in_vain_ = 0;
      hear();
      if (done_ >= options_.steps || one.step <= done_) continue;
      done_ = one.step;
      run_.seconds = std::chrono::duration<double>(one.at - *began_).count();
    }
  }

  Status note_end() {
    const std::string how = training_->describe_end();
    training_.reset();
    if (fruitless_ && ++starts_in_vain_ == kMostFruitless)
      return failure(Code::kUnavailable, "{}: it has ended {} times without a step; it {}", way_.name, kMostFruitless,
                     how);
    return {};
  }

  void kill() {
    const bool killed = training_->kill_rank(next_.rank);
    ++(killed ? run_.kills : run_.missed);
    fruitless_ = fruitless_ && !killed;
    next_ = schedule_->next();
  }

  const FailureWay& way_;
  const FailureOptions& options_;
  const int stop_;
  const std::function<void(const std::string& line)>& tell_;
  Clock::time_point tell_at_ = Clock::now() + kProgressEvery;
  FailureRun run_;
  std::optional<KillSchedule> schedule_;
  Kill next_;
  std::optional<WatchedTraining> training_;
  std::optional<Clock::time_point> began_;  // the first step
  Clock::time_point silent_at_ = {};
  std::int64_t last_ = 0, done_ = 0;  // the last step that was told, and the highest
  bool fruitless_ = false;            // no step since the last start, and no kill
  int starts_in_vain_ = 0;
};

}  // namespace

Result<FailureRun> run_under_failures(const FailureWay& way, const FailureOptions& options, double mean_seconds,
                                      int stop, const std::function<void(const std::string& line)>& tell) {
  return Runner(way, options, mean_seconds, stop, tell).run();
}

}  // namespace xoe::bench

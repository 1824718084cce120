#include "launch/job.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "launch/ending.h"
#include "launch/job_streams.h"
#include "launch/local_crew.h"

namespace xoe::launch {
namespace {

using Clock = Ending::Clock;

// `timeout` and some shells send a signal to the process and to its group: twice, but meant once.
constexpr auto kSameSignal = std::chrono::milliseconds(250);
constexpr std::size_t kLastLines = 10;

class Job {
 public:
  Job(const RunOptions& options, SignalSource signals, std::unique_ptr<bootstrap::StoreService> store,
      std::unique_ptr<Output> output, std::unique_ptr<Crew> crew)
      : options_(options),
        started_(Clock::now()),
        signals_(std::move(signals)),
        store_(std::move(store)),
        output_(std::move(output)),
        crew_(std::move(crew)),
        ending_(started_, options.timeout, options.grace),
        settled_(options.restarts == 0) {
    if (!settled_) store_->begin_world(0);
  }

  JobOutcome run() {
    while (true) {
      take_due_steps();
      if (finished()) return conclude();
      wait();
      while (const auto signal = signals_.next()) on_signal(*signal);
      while (const auto event = crew_->next()) on_event(*event);
      store_->serve();
      crew_->pump();
      output_->flush();
      if (output_->out().error() != 0 && outcome_.output_error == 0) on_output_error();
    }
  }

 private:
  void wait() {
    polled_.clear();
    for (const int fd : {signals_.fd(), store_->fd()}) polled_.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    crew_->add_to(polled_);
    for (const Sink* sink : {&output_->out(), &output_->err()})
      if (!sink->empty()) polled_.push_back({.fd = sink->fd(), .events = POLLOUT, .revents = 0});
    int patience = store_->poll_timeout_ms();
    auto next = crew_->next_turn(Clock::now());
    if (const auto step = gone_ ? std::nullopt : ending_.next())
      next = std::min(next.value_or(Clock::time_point::max()), *step);
    if (next) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
      const auto bounded = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000));
      patience = patience < 0 ? bounded : std::min(patience, bounded);
    }
    ::poll(polled_.data(), polled_.size(), patience);
    crew_->take(polled_, Clock::now());
  }

  void take_due_steps() {
    if (gone_) return;
    for (auto step = ending_.due(Clock::now()); step != Ending::Step::kNothing; step = ending_.due(Clock::now())) {
      if (step == Ending::Step::kKill) {
        crew_->send({.kind = GuardianCommand::Kind::kKillAll});
        continue;
      }
      asked_to_end_ = true;
      settle();
      crew_->send({.kind = GuardianCommand::Kind::kSignal, .signal = SIGTERM});
      crew_->send({.kind = GuardianCommand::Kind::kSignal, .signal = SIGCONT});  // a stopped one, too
    }
  }

  bool finished() {
    if (!gone_) return false;
    const bool more = crew_->output_open(Clock::now());
    return outcome_.killed_by_user || (!more && output_->empty());
  }

  // A reader that left ends the job. But Ctrl-C reaches the reader, too (`| tee log`): the ranks end in their own time
  // then, and what they still say is dropped.
  void on_output_error() {
    outcome_.output_error = output_->out().error();
    while (const auto signal = signals_.next()) on_signal(*signal);
    if (outcome_.passed_on == 0) ending_.begin(Cause::kOutputClosed, Clock::now());
  }

  void on_signal(int signal) {
    const auto now = Clock::now();
    switch (signal) {
      case SIGTSTP: return stop_with_the_ranks();
      case SIGINT:
      case SIGTERM:
      case SIGQUIT:
      case SIGHUP:
        if (last_end_signal_ && now - *last_end_signal_ < kSameSignal) return;
        if (last_end_signal_) {
          outcome_.killed_by_user = true;
          return ending_.kill_at_once(now);
        }
        last_end_signal_ = now;
        settle();
        outcome_.passed_on = signal;
        break;
      default: break;
    }
    crew_->send({.kind = GuardianCommand::Kind::kSignal, .signal = signal});
  }

  // The time that the job stands still does not count.
  void stop_with_the_ranks() {
    crew_->send({.kind = GuardianCommand::Kind::kSignal, .signal = SIGTSTP});
    output_->flush();
    crew_->pause();
    const auto stopped = Clock::now();
    ::kill(::getpid(), SIGSTOP);
    crew_->resume();
    ending_.shift(Clock::now() - stopped);
  }

  void on_event(const GuardianEvent& event) {
    const auto now = Clock::now();
    switch (event.kind) {
      case GuardianEvent::Kind::kStartFailed:
        settle();
        outcome_.start_error = event.value;
        outcome_.start_rank = event.rank;
        return ending_.begin(Cause::kStartFailed, now);
      case GuardianEvent::Kind::kEnded: return on_end(event, now);
      case GuardianEvent::Kind::kAllGone:
        gone_ = true;
        if (crew_->lost()) ending_.begin(Cause::kGuardianLost, now);
        return;
      case GuardianEvent::Kind::kHostLost:
        settle();
        ending_.begin(Cause::kHostLost, now);
        ended_ += event.value;
        if (ended_ == options_.size) ending_.leftovers(now);
        return;
    }
  }

  void on_end(const GuardianEvent& event, Clock::time_point now) {
    const RankEnd end{.rank = event.rank, .pid = event.pid, .status = event.value, .ran = event.ran};
    if (end.status != 0 && may_restart()) return restart(end);
    settle();
    if (end.rank == 0) crew_->close_input();
    if (asked_to_end_) {
      ++outcome_.terminated;
      if (WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL) ++outcome_.killed;
    } else if (end.status != 0 && !outcome_.first_failure) {
      outcome_.first_failure = end;
      ending_.begin(Cause::kRankFailed, now);
    }
    if (++ended_ == options_.size) ending_.leftovers(now);
  }

  // Where a rank has ended well the others cannot form a group any more.
  bool may_restart() const { return !settled_ && world_version_ < options_.restarts; }

  // The store comes first: ranks look there for the version of the world.
  void restart(const RankEnd& end) {
    store_->begin_world(++world_version_);
    crew_->send({.kind = GuardianCommand::Kind::kRestart, .rank = end.rank});
    output_->err().write(fmt::format("xoe run: {}; started anew, {} of {} restarts left\n",
                                     describe_end(end, crew_->host_of(end.rank)), options_.restarts - world_version_,
                                     options_.restarts));
  }

  void settle() {
    if (!std::exchange(settled_, true)) crew_->send({.kind = GuardianCommand::Kind::kSettled});
  }

  JobOutcome conclude() {
    outcome_.cause = ending_.cause();
    outcome_.ran = Clock::now() - started_;
    outcome_.file_errors = crew_->file_errors();
    outcome_.host_failures = crew_->host_failures();
    if (outcome_.first_failure) {
      const auto rank = static_cast<std::size_t>(outcome_.first_failure->rank);
      for (const bool err : {true, false}) {
        if (!outcome_.last_lines.empty()) break;
        outcome_.last_lines = crew_->of(rank, err).last_lines(kLastLines);
        outcome_.last_stream = err ? "stderr" : "stdout";
      }
    }
    outcome_.host = crew_->host_of(outcome_.first_failure ? outcome_.first_failure->rank : outcome_.start_rank);
    return std::move(outcome_);
  }

  const RunOptions& options_;
  Clock::time_point started_;
  SignalSource signals_;
  std::unique_ptr<bootstrap::StoreService> store_;
  std::unique_ptr<Output> output_;
  std::unique_ptr<Crew> crew_;
  Ending ending_;
  JobOutcome outcome_;
  std::vector<pollfd> polled_;
  int ended_ = 0;
  int world_version_ = 0;  // how often ranks have been restarted
  bool settled_;        // no rank will be
  bool asked_to_end_ = false;
  bool gone_ = false;  // all processes of the job
  std::optional<Clock::time_point> last_end_signal_;
};

}  // namespace

Result<JobOutcome> run_job(const RunOptions& options, const JobPlan& plan, int out, int err) {
  see_children_end();
  XOE_ASSIGN(const rlimit open_files, allow_open_files(options.size));
  auto output = std::make_unique<Output>(out, err);
  XOE_ASSIGN(auto opened, open_streams(options, *output));
  XOE_ASSIGN(const auto address, bootstrap::SocketAddress::parse(plan.store));
  XOE_ASSIGN(auto store, bootstrap::StoreService::listen(address, plan.secret));
  XOE_ASSIGN(auto signals, SignalSource::open());
  const RankCommands commands(plan, opened.ends, signals.mask_before(), open_files);
  XOE_ASSIGN(auto guardian,
             GuardianLink::start(commands.requests(), opened.streams.descriptors(), options.restarts > 0));
  opened.ends.clear();
  auto crew = std::make_unique<LocalCrew>(std::move(guardian), std::move(opened.streams));
  return accompany(options, std::move(signals), std::move(store), std::move(output), std::move(crew));
}

JobOutcome accompany(const RunOptions& options, SignalSource signals, std::unique_ptr<bootstrap::StoreService> store,
                     std::unique_ptr<Output> output, std::unique_ptr<Crew> crew) {
  return Job(options, std::move(signals), std::move(store), std::move(output), std::move(crew)).run();
}

}  // namespace xoe::launch

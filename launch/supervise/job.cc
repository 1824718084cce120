#include "launch/supervise/job.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/bootstrap/store.h"
#include "launch/output/elastic_log.h"
#include "launch/output/report.h"
#include "launch/supervise/conclusion.h"
#include "launch/supervise/departures.h"
#include "launch/supervise/end_signals.h"
#include "launch/supervise/first_fault.h"
#include "launch/supervise/lost_ranks.h"
#include "launch/supervise/requested_stop.h"
#include "launch/supervise/resizing.h"
#include "launch/supervise/restart_policy.h"
#include "launch/supervise/restart_queue.h"
#include "launch/supervise/shutdown_policy.h"

namespace xoe::launch {
namespace {

using Clock = ShutdownPolicy::Clock;

// Ranks have all the time that they want to react to a signal, but not for good to follow others that have ended
// because of a SIGTERM or SIGHUP, behind which there may be no one who sends a second one. The user is told of those
// that still run after this time, and again each time that it has doubled.
constexpr auto kStillRunning = std::chrono::seconds(10);
constexpr std::size_t kNamedRanks = 4;
// For a rank that has said that it fails: it may have something to save or to send.
constexpr auto kLastWords = std::chrono::seconds(30);
// For a rank that others have lost: its own end is the cause of theirs, and takes a while.
constexpr auto kEndOfLost = std::chrono::seconds(10);
// The launcher waits so long for the answers of hosts, which may be lost.
constexpr auto kNewsTimeout = std::chrono::seconds(5);
// A rank that was lost may tell late of a world that others have followed.
constexpr std::size_t kKnownVersions = 64;
// Ranks go over to the next world at a step of theirs, which may be long; the user is told after this time that they
// have not, and again each time that it has doubled.
constexpr auto kNotFormed = std::chrono::seconds(60);
constexpr std::size_t kHere = 0;  // the host at which our own signals come

class Job {
 public:
  Job(const RunOptions& options, SignalSource signals, std::unique_ptr<bootstrap::StoreService> store,
      std::unique_ptr<Output> output, std::unique_ptr<JobProcesses> processes, CodeOf code_of)
      : options_(options),
        code_of_(std::move(code_of)),
        started_(Clock::now()),
        signals_(std::move(signals)),
        store_(std::move(store)),
        output_(std::move(output)),
        processes_(std::move(processes)),
        shutdown_(started_, options.timeout, options.grace),
        log_(options.changes_size() && !options.output_dir.empty() ? options.output_dir + "/elastic.json"
                                                                   : std::string()),
        restarts_(options.restarts, options.restarts > 0 || options.changes_size()) {
    for (int rank = 0; rank < processes_->slots(); ++rank)
      if (processes_->is_started(rank)) running_.insert(running_.end(), rank);
    ends_to_come_ = static_cast<int>(running_.size());
    if (options.changes_size()) allow_resizing();
    if (restarts_.allowed()) begin_world();
  }

  JobOutcome run() {
    while (true) {
      run_timers();
      if (finished()) return conclude();
      wait();
      while (const auto signal = signals_.next()) on_signal(*signal, kHere);
      while (const auto event = processes_->next()) on_event(*event);
      if (waits_for_news_ && !processes_->awaits_news()) on_news();
      store_->serve();
      note_lost_peers();
      look_at_changes(/*may_start=*/true);
      processes_->pump();
      output_->flush();
      if (output_->out().error() != 0 && outcome_.output_error == 0) on_output_error();
    }
  }

 private:
  void allow_resizing() {
    ResizeActions actions{
        .start = [this](int slot, const std::string& device) { start_rank(slot, device); },
        .signal =
            [this](int slot, int signal) {
              processes_->send({.kind = SupervisorCommand::Kind::kSignalRank, .signal = signal, .rank = slot});
            },
        .begin_world = [this](bool all_live) { begin_next_world(all_live); },
        .formed =
            [this] {
              not_formed_at_.reset();
              note_lost_peers();
              faults_.forget_lost(world_version_);
              note({.what = "world",
                    .version = world_version_,
                    .ranks = static_cast<int>(resizing_->members().size()),
                    .seconds = std::chrono::duration<double>(Clock::now() - begun_at_).count()});
            },
        .tell = [this](const std::string& line) { tell(line); },
        .left = [this](std::size_t host) { processes_->release_host(host); }};
    std::vector<Place> places;
    for (int slot = 0; slot < processes_->slots(); ++slot)
      places.push_back({.host = processes_->host_index(slot),
                        .device = slot < std::ssize(options_.devices) ? options_.devices[static_cast<std::size_t>(slot)]
                                                                      : std::string(),
                        .is = slot_state(slot)});
    resizing_.emplace(
        Fd(options_.resize_fd), places,
        ResizeLimits{.least = options_.elastic.least,
                     .most = options_.elastic.most,
                     .grace = options_.grace,
                     .interval = options_.resize_fd < 0 ? options_.elastic.interval : std::chrono::nanoseconds()},
        std::move(actions));
    departures_.emplace(
        *resizing_, *processes_,
        [this](std::size_t host) { note({.what = "host_leaves", .host = processes_->host_name(host)}); },
        [this](const std::string& line) { tell(line); });
    if (Panel* panel = output_->panel())
      for (int slot = options_.size; slot < options_.slots(); ++slot)
        panel->ended(static_cast<std::size_t>(slot), "no GPU yet");
  }

  Place::Is slot_state(int slot) const {
    if (processes_->is_started(slot)) return Place::Is::kMember;
    return processes_->has_host(processes_->host_index(slot)) ? Place::Is::kFree : Place::Is::kAbsent;
  }

  void note(const ElasticEvent& event) {
    if (const std::string problem = log_.add(event); !problem.empty()) tell(problem);
  }

  void tell(const std::string& line) { output_->err().write(fmt::format("xoe run: {}\n", line)); }

  void look_at_changes(bool may_start) {
    if (!resizing_ || gone_) return;
    resizing_->look(*store_, Clock::now(), may_start);
    departures_->look();
    end_where_all_leave();
    // A rank that is about to be restarted need not leave first.
    const auto leaves = [this](const ScheduledRestart& one) { return !one.gone && resizing_->leaves(one.end.rank); };
    for (const ScheduledRestart& restart : scheduled_restarts_.take_if(leaves))
      end_in_slot(restart.end, remote::describe_status(restart.end.value));
  }

  // False: it counts for the job.
  bool end_in_slot(const SupervisorEvent& event, const std::string& how) {
    const bool failed = event.kind == SupervisorEvent::Kind::kStartFailed || event.value != 0;
    const bool joined = resizing_ && resizing_->is_joining(event.rank);
    const auto end = resizing_ ? resizing_->ended(event.rank, failed, how) : Resizing::End::kOfMember;
    if (end == Resizing::End::kOfMember) return false;
    running_.erase(event.rank);
    if (end == Resizing::End::kHarmful && event.kind == SupervisorEvent::Kind::kEnded)
      faults_.suspect({.cause = Cause::kRankFailed, .host = event.host, .end = end_of(event), .at = event.at});
    if (Panel* panel = output_->panel()) panel->ended(static_cast<std::size_t>(event.rank), "left");
    count_ended(1, Clock::now());
    const bool came = end == Resizing::End::kApart || (end == Resizing::End::kHarmful && joined);
    if (options_.elastic.least > 0 && failed && came && schedule_return(event))
      tell(fmt::format("it is restarted: {}", restarts_left()));
    return true;
  }

  // The others go on without a member that has failed, if enough are left. False: it counts for the job.
  bool lose_member(const SupervisorEvent& event, Clock::time_point now) {
    if (!resizing_ || !restarts_.allowed() || !resizing_->lose(event.rank)) return false;
    running_.erase(event.rank);
    // If the others end before they have formed a world without it, it is because of this.
    faults_.suspect({.cause = Cause::kRankFailed, .host = event.host, .end = end_of(event), .at = event.at},
                    /*until_formed=*/true);
    if (Panel* panel = output_->panel()) panel->ended(static_cast<std::size_t>(event.rank), "lost");
    note({.what = "rank_lost",
          .host = processes_->host_of(event.rank),
          .rank = event.rank,
          .why = remote::describe_status(event.value)});
    const bool returns = schedule_return(event);
    tell(fmt::format("{}; {}{}", describe_end(end_of(event), processes_->host_of(event.rank)), who_goes_on(),
                     returns ? ", and it is restarted: " + restarts_left() : std::string()));
    if (!resizing_->has_formed())
      tell(
          fmt::format("no world has formed yet: the first one is without rank {}; a program that does not use Xoe "
                      "hears nothing of it",
                      event.rank));
    count_ended(1, now);
    return true;
  }

  std::string who_goes_on() const {
    const auto left = std::ssize(resizing_->members());
    return fmt::format("{} {} on", counted(left, "rank"), left == 1 ? "goes" : "go");
  }

  // The same for all ranks of a host.
  bool lose_host(const Fault& fault, int unfinished, Clock::time_point now) {
    const int version = world_version_;
    // One that only has ranks which leave, or have not joined, is no loss, also where the job is about to end.
    if (!resizing_ || (!restarts_.allowed() && resizing_->has_member(fault.host))) return false;
    if (!resizing_->lose_host(fault.host)) return false;
    if (world_version_ != version) faults_.suspect(fault, /*until_formed=*/true);
    for (const int slot : processes_->slots_of(fault.host)) {
      running_.erase(slot);
      if (Panel* panel = output_->panel()) panel->ended(static_cast<std::size_t>(slot), "lost");
    }
    scheduled_restarts_.take_if([&](const ScheduledRestart& one) { return one.end.host == fault.host; });
    const auto failures = processes_->take_host_failures();
    for (const std::string& line : failures) tell(line);
    note({.what = "host_lost",
          .host = processes_->host_name(fault.host),
          .why = !failures.empty()                 ? failures.front()
                 : fault.cause == Cause::kHostLost ? "it was lost"
                                                   : "the process that supervises its ranks was killed"});
    tell(fmt::format("{} without host {}", who_goes_on(), processes_->host_name(fault.host)));
    count_ended(unfinished, now);
    return true;
  }

  std::string restarts_left() const {
    return fmt::format("{} of {} restarts left", restarts_.left(), options_.restarts);
  }

  std::optional<std::chrono::nanoseconds> restart_after(const SupervisorEvent& event) {
    const bool started = event.kind == SupervisorEvent::Kind::kEnded;
    if (!started || RestartPolicy::may_help(event.value, event.ran)) return restarts_.restart_after(event.ran);
    if (restarts_.left() > 0 && restarts_.allowed())
      tell(fmt::format("rank {} is not restarted: exit code {} says that {}, which no restart mends", event.rank,
                       WEXITSTATUS(event.value),
                       WEXITSTATUS(event.value) == RestartPolicy::kWrongUsage
                           ? "its command line is wrong"
                           : "its program is not there, or cannot be executed"));
    return std::nullopt;
  }

  // No rank is left that has the state of the training, or could wait for the others: those that are to come back begin
  // with this one, as at the start of the job.
  void begin_together(int slot) {
    if (!resizing_ || options_.elastic.least == 0 || !resizing_->begin_together(slot)) return;
    for (ScheduledRestart one : scheduled_restarts_.take_if([](const ScheduledRestart& late) { return late.gone; })) {
      if (!resizing_->take_along(one.end.rank)) continue;
      running_.insert(one.end.rank);
      ++ends_to_come_;
      one.gone = false;
      scheduled_restarts_.add(one);
    }
    const auto all = std::ssize(resizing_->members());
    if (all > 1) tell(fmt::format("no rank is left of those that went on: all {} begin again", counted(all, "rank")));
  }

  // It comes back as one that joins, beside the others.
  bool schedule_return(const SupervisorEvent& event) {
    const auto pause = restart_after(event);
    if (pause) scheduled_restarts_.add({.at = Clock::now() + *pause, .end = event, .gone = true});
    return pause.has_value();
  }

  void start_rank(int slot, const std::string& device) {
    // Of the process that was in the slot before.
    for (const auto key : {bootstrap::kWorldCandidateKey, bootstrap::kFailingRankKey})
      store_->remove(fmt::format("{}/{}", key, slot));
    SupervisorCommand command{.kind = SupervisorCommand::Kind::kRestart, .rank = slot};
    device.copy(command.device.data(), command.device.size() - 1);
    processes_->send(command);
    running_.insert(slot);
    ++ends_to_come_;
    if (Panel* panel = output_->panel()) panel->restarted(static_cast<std::size_t>(slot));
  }

  // The store comes before the page: ranks that see a version there find it in the store.
  void begin_world() {
    store_->begin_world(world_version_, resizing_ ? resizing_->world() : std::vector<bootstrap::WorldMember>(), kept_);
    if (!resizing_) return;
    members_of_[world_version_] = resizing_->members();
    if (members_of_.size() > kKnownVersions) members_of_.erase(members_of_.begin());
    processes_->publish_world(world_version_, resizing_->members());
    resizing_->begun(world_version_);
  }
  void begin_next_world(bool all_live = false) {
    // One that has lost others waits in the old world: its keys must not be kept for those that go over.
    if (!all_live || lost_ranks_.any())
      kept_.reset();
    else if (!not_formed_at_)
      kept_ = world_version_;
    ++world_version_;
    lost_ranks_.clear();
    begun_at_ = Clock::now();
    if (resizing_) not_formed_at_ = begun_at_ + kNotFormed;
    begin_world();
  }

  void wait() {
    polled_.clear();
    for (const int fd : {signals_.fd(), store_->fd()}) polled_.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    if (resizing_ && resizing_->fd() >= 0 && !gone_)
      polled_.push_back({.fd = resizing_->fd(), .events = resizing_->events(), .revents = 0});
    processes_->add_to(polled_);
    for (const Sink* sink : {&output_->out(), &output_->err()})
      if (!sink->empty()) polled_.push_back({.fd = sink->fd(), .events = POLLOUT, .revents = 0});
    int timeout = store_->poll_timeout_ms();
    auto next = processes_->next_turn(Clock::now());
    const auto earlier = [&next](Clock::time_point time) {
      next = std::min(next.value_or(Clock::time_point::max()), time);
    };
    if (const auto step = gone_ ? std::nullopt : shutdown_.next()) earlier(*step);
    if (gone_ && shutdown_.cause() == Cause::kTimeout) earlier(*gone_ + options_.grace);
    if (const auto restart = scheduled_restarts_.next()) earlier(*restart);
    if (const auto step = resizing_ && !gone_ ? resizing_->next() : std::nullopt) earlier(*step);
    if (const auto save = save_at()) earlier(*save);
    if (remind_at_ && !gone_) earlier(*remind_at_);
    if (const auto verdict = gone_ ? std::nullopt : lost_ranks_.next()) earlier(*verdict);
    if (not_formed_at_ && !gone_) earlier(*not_formed_at_);
    if (const Panel* panel = output_->panel(); panel != nullptr && !gone_) earlier(panel->next_draw());
    if (next) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
      const auto bounded = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000));
      timeout = timeout < 0 ? bounded : std::min(timeout, bounded);
    }
    ::poll(polled_.data(), polled_.size(), timeout);
    processes_->take(polled_, Clock::now());
  }

  void run_timers() {
    if (gone_) return;
    if (const Panel* panel = output_->panel(); panel != nullptr && Clock::now() >= panel->next_draw())
      show_panel(Clock::now());
    while (const auto due = scheduled_restarts_.take_due(Clock::now())) restart(*due);
    if (remind_at_ && Clock::now() >= *remind_at_) remind();
    look_at_lost_ranks();
    if (not_formed_at_ && Clock::now() >= *not_formed_at_) tell_not_formed(Clock::now());
    for (auto step = shutdown_.next_step(Clock::now()); step != ShutdownPolicy::Step::kNothing;
         step = shutdown_.next_step(Clock::now())) {
      if (step == ShutdownPolicy::Step::kKill) {
        processes_->send({.kind = SupervisorCommand::Kind::kKillAll});
        continue;
      }
      forbid_restarts();
      processes_->send({.kind = SupervisorCommand::Kind::kEnd});
    }
  }

  bool finished() {
    if (!gone_) return false;
    const bool more = processes_->output_open(Clock::now());
    if (outcome_.killed_by_user || (!more && output_->empty())) return true;
    // A time limit is kept, also where the output has no reader.
    outcome_.unread = shutdown_.cause() == Cause::kTimeout && Clock::now() >= *gone_ + options_.grace;
    return outcome_.unread;
  }

  // A reader that is gone ends the job. But Ctrl-C reaches the reader too (`| tee log`): the ranks then end in their
  // own time, and their remaining output is dropped.
  void on_output_error() {
    outcome_.output_error = output_->out().error();
    while (const auto signal = signals_.next()) on_signal(*signal, kHere);
    if (outcome_.passed_on == 0) shutdown_.begin(Cause::kOutputClosed, Clock::now());
  }

  void on_signal(int signal, std::size_t host) {
    const auto now = Clock::now();
    switch (signal) {
      case SIGTSTP: return stop_with_the_ranks();
      case SIGWINCH: output_->resized(); return show_panel(now);
      case SIGINT:
      case SIGTERM:
      case SIGQUIT:
      case SIGHUP:
        switch (end_signals_.note(host, now)) {
          case EndSignals::Meaning::kSame: return;
          case EndSignals::Meaning::kSecond: outcome_.killed_by_user = true; return shutdown_.kill_at_once(now);
          case EndSignals::Meaning::kFirst: break;
        }
        forbid_restarts();
        outcome_.passed_on = signal;
        remind_at_ = now + kStillRunning;
        break;
      default: break;
    }
    processes_->send({.kind = SupervisorCommand::Kind::kSignal, .signal = signal});
  }

  void show_panel(Clock::time_point now) {
    Panel* const panel = output_->panel();
    if (panel == nullptr) return;
    panel->observe(processes_->samples(now), now);
    std::vector<std::string> last_lines;
    for (int rank = 0; rank < options_.slots(); ++rank) {
      const auto& out = processes_->stream_of(static_cast<std::size_t>(rank), false);
      const auto& err = processes_->stream_of(static_cast<std::size_t>(rank), true);
      last_lines.push_back(out.heard() >= err.heard() ? out.last_line() : err.last_line());
    }
    output_->show_panel(last_lines);
  }

  // The user waits for ranks that do not react, or that have much to save.
  void remind() {
    remind_at_ = running_.empty() ? std::nullopt : std::optional(*remind_at_ + (*remind_at_ - *end_signals_.first()));
    if (running_.empty() || shutdown_.cause() != Cause::kNone) return;
    const std::string signal = signal_name(outcome_.passed_on);
    std::vector<std::string> names;
    for (const int rank : running_)
      if (names.size() < kNamedRanks) names.push_back(fmt::format("{} (host {})", rank, processes_->host_of(rank)));
    if (running_.size() > names.size()) names.push_back(fmt::format("{} more", running_.size() - names.size()));
    output_->err().write(
        fmt::format("xoe run: {} {} not ended {} after {}: {}; a second {} kills {}\n",
                    counted(static_cast<std::int64_t>(running_.size()), "rank"), running_.size() == 1 ? "has" : "have",
                    human_seconds(std::chrono::round<std::chrono::seconds>(Clock::now() - *end_signals_.first())),
                    signal, fmt::join(names, ", "), signal, running_.size() == 1 ? "it" : "them"));
  }

  // The time in which the job is stopped does not count.
  void stop_with_the_ranks() {
    processes_->send({.kind = SupervisorCommand::Kind::kSignal, .signal = SIGTSTP});
    output_->hide();
    output_->flush();
    processes_->pause();
    const auto stopped = Clock::now();
    ::kill(::getpid(), SIGSTOP);
    processes_->resume();
    shutdown_.shift(Clock::now() - stopped);
    if (remind_at_) *remind_at_ += Clock::now() - stopped;
  }

  void tell_not_formed(Clock::time_point now) {
    const auto waited = now - begun_at_;
    not_formed_at_ = now + waited;
    if (!restarts_.allowed() || shutdown_.cause() != Cause::kNone) return;
    tell(
        fmt::format("world {} ({}) has not formed for {}: its ranks go over to it at a step of theirs, with "
                    "hvd.elastic.run, xoe::elastic::run or xoe train; a program without them never does",
                    world_version_, counted(std::ssize(resizing_->members()), "rank"),
                    human_seconds(std::chrono::round<std::chrono::seconds>(waited))));
  }

  void on_event(const SupervisorEvent& event) {
    const auto now = Clock::now();
    switch (event.kind) {
      case SupervisorEvent::Kind::kStartFailed:
        if (end_in_slot(event, "could not be started: " + errno_text(event.value))) return;
        forbid_restarts();
        outcome_.start_error = event.value;
        outcome_.start_rank = event.rank;
        return shutdown_.begin(Cause::kStartFailed, now);
      case SupervisorEvent::Kind::kEnded: return on_end(event, now);
      case SupervisorEvent::Kind::kAllGone: gone_ = now; return;
      case SupervisorEvent::Kind::kSupervisorLost: return on_lost(Cause::kSupervisorLost, event, now);
      case SupervisorEvent::Kind::kHostLost: return on_lost(Cause::kHostLost, event, now);
      case SupervisorEvent::Kind::kSignalled: return on_signal(event.value, event.host);
      case SupervisorEvent::Kind::kReported: return;
      case SupervisorEvent::Kind::kHostCame:
        note({.what = "host_came", .host = processes_->host_name(event.host)});
        return resizing_->take_host(event.host, processes_->slots_of(event.host));
      case SupervisorEvent::Kind::kHostGoes:
        if (departures_) departures_->add(event);
        return;
      case SupervisorEvent::Kind::kHostStays:
        if (departures_) departures_->keep(event.host);
        return;
      case SupervisorEvent::Kind::kNews:
        if (shutdown_.cause() != Cause::kNone) return;  // they belong to the report
        for (const std::string& line : processes_->take_host_failures()) {
          note({.what = "news", .why = line});
          tell(line);
        }
        return;
    }
  }

  std::optional<Clock::time_point> save_at() const {
    const bool ends = gone_ || outcome_.passed_on != 0 || shutdown_.cause() != Cause::kNone;
    return departures_ && !ends ? departures_->save_at() : std::nullopt;
  }

  // No host is left for the ranks, which have something to save.
  void end_where_all_leave() {
    const auto at = save_at();
    if (!at || Clock::now() < *at) return;
    tell("every host is to leave: the ranks get SIGTERM, so that they save what they have");
    forbid_restarts();
    outcome_.passed_on = SIGTERM;
    outcome_.all_leave = true;
    processes_->send({.kind = SupervisorCommand::Kind::kSignal, .signal = SIGTERM});
  }

  void on_lost(Cause cause, const SupervisorEvent& event, Clock::time_point now) {
    const Fault fault{.cause = cause, .host = event.host, .at = event.at};
    // One without ranks is no loss, also when the job is about to end.
    if (lose_host(fault, event.value, now) || (options_.elastic.least > 0 && event.value == 0)) return;
    forbid_restarts();
    faults_.add(fault);
    shutdown_.begin(cause, now);
    count_ended(event.value, now);
  }

  void on_end(SupervisorEvent event, Clock::time_point now) {
    note_announcements(now);
    note_lost_peers();
    lost_ranks_.ended(event.rank);
    const auto announced = faults_.take_announced(event.rank, event.pid);
    if (announced) event.at = std::min(announced->at, event.at);
    // The rank may have formed a world a moment ago.
    if (resizing_) {
      store_->serve();
      look_at_changes(/*may_start=*/false);
    }
    if (end_in_slot(event, remote::describe_status(event.value))) return;
    if (event.value != 0 && lose_member(event, now)) return;
    if (const auto pause = event.value != 0 ? restart_after(event) : std::nullopt) {
      begin_together(event.rank);
      // The store comes first: ranks read the world's version there, and those that survive wait for the next one.
      begin_next_world();
      scheduled_restarts_.add({.at = now + *pause, .end = event});
      if (Panel* panel = output_->panel()) panel->ended(static_cast<std::size_t>(event.rank), "restarting");
      return;
    }
    forbid_restarts();
    on_last_end(event, now, announced);
  }

  // `announced`: that it would fail, before it ended.
  void on_last_end(const SupervisorEvent& event, Clock::time_point now, const std::optional<Fault>& announced = {}) {
    const RankEnd end = end_of(event);
    running_.erase(end.rank);
    if (Panel* panel = output_->panel())
      panel->ended(static_cast<std::size_t>(end.rank), end.status == 0 ? "ended" : remote::describe_status(end.status));
    if (end.rank == 0) processes_->close_input();
    if (end.status == 0) store_->note_ended(rank_in_world(end.rank), remote::describe_status(0));
    if (end.status == 0 && shutdown_.cause() == Cause::kRankFailed) end_others(now);
    if (event.asked && announced) {
      faults_.add(*announced);
    } else if (event.asked) {
      ++outcome_.terminated;
      if (shutdown_.killed() && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL) ++outcome_.killed;
    } else {
      sort_out({.cause = Cause::kRankFailed, .host = event.host, .end = end, .at = event.at}, now);
    }
    count_ended(1, now);
  }

  // After a signal of the user's, a rank that ends as it asked, or because another did, leaves the others time: they
  // may be writing a checkpoint.
  void sort_out(const Fault& end, Clock::time_point now) {
    const int status = end.end->status;
    if (outcome_.passed_on != 0 && (status == 0 || ended_as_asked(status, outcome_.passed_on))) {
      stop_request_.add(end);
      if (outcome_.passed_on == SIGTERM || outcome_.passed_on == SIGHUP)
        shutdown_.limit_others(now + options_.signal_limit);
      // The news of what followed may have come first, from another host.
      for (const Fault& explained : faults_.take_if([&](const Fault& fault) { return stop_request_.explain(fault); }))
        stop_request_.follow(explained);
      if (faults_.empty() && shutdown_.cause() == Cause::kRankFailed) shutdown_.withdraw();
    } else if (status != 0 && stop_request_.explain(end)) {
      stop_request_.follow(end);
    } else if (status != 0) {
      if (may_answer(end)) faults_.add_announced(end);
      faults_.add(end);
      end_others(now);
    }
  }

  // Because of the faults so far. The first of them may be still to come.
  void end_others(Clock::time_point now) {
    if (shutdown_.cause() == Cause::kNone) {
      processes_->send({.kind = SupervisorCommand::Kind::kReport});
      waits_for_news_ = processes_->awaits_news();
    }
    const bool awaited = faults_.awaits(running_);
    shutdown_.begin(Cause::kRankFailed, now,
                    faults_.any_announced() ? kLastWords
                    : awaited               ? kEndOfLost
                    : waits_for_news_       ? kNewsTimeout
                                            : Clock::duration());
  }

  // Each host has told what happened there before it heard of the first fault: its cause is known.
  void on_news() {
    waits_for_news_ = false;
    for (int rank = 0; rank < processes_->slots(); ++rank) {
      const std::size_t host = processes_->host_index(rank);
      faults_.note_lateness(host, processes_->lateness(host));
    }
    if (shutdown_.cause() == Cause::kRankFailed && !faults_.empty()) end_others(Clock::now());
  }

  void note_lost_peers() {
    for (const bootstrap::LostPeers& told : store_->take_lost_peers()) {
      if (told.rank < 0 || told.rank >= processes_->slots()) continue;
      std::vector<LostPeer> lost;
      for (const int rank : told.lost)
        if (const auto slot = slot_of(rank, told.version); slot && *slot != told.rank)
          lost.push_back({.rank = *slot, .host = processes_->host_index(*slot)});
      if (told.unreachable) {
        leave_out_unreachable(told, lost);
        continue;
      }
      if (told.version == kept_ && not_formed_at_)
        begin_next_world();
      else if (resizing_ && told.version == world_version_ && running_.contains(told.rank)) {
        std::vector<int> slots;
        for (const LostPeer& peer : lost)
          if (running_.contains(peer.rank)) slots.push_back(peer.rank);
        lost_ranks_.note(told.rank, slots, told.silent, Clock::now());
      }
      faults_.note_lost(told.rank, told.pid, std::move(lost), told.version);
    }
  }

  // No process has ended, so that nothing else begins another world.
  void look_at_lost_ranks() {
    if (!resizing_ || shutdown_.cause() != Cause::kNone || outcome_.passed_on != 0) return;
    const auto verdict = lost_ranks_.take_due(Clock::now());
    if (!verdict) return;
    for (const int slot : verdict->stuck) {
      tell(fmt::format("rank {} (host {}) is not heard by its peers, though its process lives: it is ended", slot,
                       processes_->host_of(slot)));
      processes_->send({.kind = SupervisorCommand::Kind::kSignalRank, .signal = SIGKILL, .rank = slot});
    }
    if (!verdict->parted) return;
    tell("the ranks have lost each other, and all of them live: they begin another world");
    begin_next_world();
  }

  void note_announcements(Clock::time_point now) {
    for (const bootstrap::FailingRank& failing : store_->take_failing())
      if (running_.contains(failing.rank))
        faults_.announce({.cause = Cause::kRankFailed,
                          .host = processes_->host_index(failing.rank),
                          .end = RankEnd{.rank = failing.rank,
                                         .pid = failing.pid,
                                         .status = W_EXITCODE(1, 0),
                                         .ran = now - started_,
                                         .announced = true},
                          .at = failing.at});
  }

  // Of two that do not reach each other, the newcomer is to blame: the others had a world without it.
  void leave_out_unreachable(const bootstrap::LostPeers& told, const std::vector<LostPeer>& lost) {
    if (!resizing_ || told.version != world_version_ || resizing_->is_joining(told.rank)) return;
    for (const LostPeer& peer : lost) {
      if (!resizing_->is_joining(peer.rank)) continue;
      const std::string line = fmt::format(
          "host {} is left out: rank {} there and rank {} (host {}) do not reach each other; are its ports open to the "
          "other hosts?",
          processes_->host_of(peer.rank), peer.rank, told.rank, processes_->host_of(told.rank));
      tell(line);
      note({.what = "news", .host = processes_->host_of(peer.rank), .why = line});
      return resizing_->bar(peer.rank);
    }
  }

  // The slot of a rank of that version of the world; nullopt: it has none, or the version is long past.
  std::optional<int> slot_of(int rank, int version) const {
    if (!resizing_) return rank >= 0 && rank < options_.size ? std::optional(rank) : std::nullopt;
    const auto found = members_of_.find(version);
    if (found == members_of_.end() || rank < 0 || rank >= std::ssize(found->second)) return std::nullopt;
    return found->second[static_cast<std::size_t>(rank)];
  }

  // A slot's number, where the number of ranks does not change.
  int rank_in_world(int slot) const {
    if (!resizing_) return slot;
    const auto members = resizing_->members();
    return static_cast<int>(std::ranges::find(members, slot) - members.begin());
  }

  void count_ended(int ranks, Clock::time_point now) {
    ends_to_come_ -= ranks;
    if (ranks > 0 && ends_to_come_ == 0) shutdown_.leftovers(now);
  }

  void restart(const ScheduledRestart& due) {
    const RankEnd end = end_of(due.end);
    outcome_.restarts.push_back(Clock::now() - started_);
    if (due.gone) return resizing_->bring_back(end.rank);
    processes_->send({.kind = SupervisorCommand::Kind::kRestart, .rank = end.rank});
    if (Panel* panel = output_->panel()) panel->restarted(static_cast<std::size_t>(end.rank));
    output_->err().write(fmt::format("xoe run: {}; restarted, {} of {} restarts left\n",
                                     describe_end(end, processes_->host_of(end.rank)),
                                     restarts_.left() + scheduled_restarts_.awaited(), options_.restarts));
  }

  // Ranks that were about to be restarted have failed for good.
  void forbid_restarts() {
    if (!restarts_.forbid()) return;
    if (resizing_) resizing_->stop();
    processes_->send({.kind = SupervisorCommand::Kind::kNoMoreRestarts});
    for (const ScheduledRestart& restart : scheduled_restarts_.take_if([](const auto&) { return true; }))
      if (!restart.gone) on_last_end(restart.end, Clock::now());
  }

  JobOutcome conclude() {
    output_->hide();
    output_->flush();
    outcome_.cause = shutdown_.cause();
    outcome_.ran = Clock::now() - started_;
    outcome_.signalled = end_signals_.hosts();
    launch::conclude(outcome_, options_, faults_, stop_request_, *processes_);
    const auto lines = report_lines(outcome_, options_);
    const auto code = code_of_(outcome_);
    note({.what = "ended",
          .why = !lines.empty() ? lines.front()
                 : code         ? "the ranks exited with code 0"
                                : "",
          .seconds = std::chrono::duration<double>(outcome_.ran).count(),
          .code = code});
    output_->flush();
    return std::move(outcome_);
  }

  static RankEnd end_of(const SupervisorEvent& event) {
    return {.rank = event.rank, .pid = event.pid, .status = event.value, .ran = event.ran};
  }

  const RunOptions& options_;
  const CodeOf code_of_;
  Clock::time_point started_;
  SignalSource signals_;
  std::unique_ptr<bootstrap::StoreService> store_;
  std::unique_ptr<Output> output_;
  std::unique_ptr<JobProcesses> processes_;
  ShutdownPolicy shutdown_;
  JobOutcome outcome_;
  std::vector<pollfd> polled_;
  int ends_to_come_ = 0;                   // of ranks
  Clock::time_point begun_at_ = started_;  // the last version of the world
  ElasticLog log_;
  int world_version_ = 0;                       // how often a rank was restarted, or the number of ranks changed
  std::map<int, std::vector<int>> members_of_;  // slots, by version
  std::optional<Resizing> resizing_;
  RestartPolicy restarts_;
  LostRanks lost_ranks_;
  std::optional<int> kept_;  // the last version that has formed, if it is still served
  RestartQueue scheduled_restarts_;
  std::optional<Departures> departures_;  // where there is resizing_
  FirstFault faults_;
  bool waits_for_news_ = false;
  RequestedStop stop_request_;
  std::set<int> running_;
  std::optional<Clock::time_point> not_formed_at_;  // the user is told that the world has not formed
  std::optional<Clock::time_point> remind_at_;      // the user, of ranks that still run after the signal
  std::optional<Clock::time_point> gone_;           // since when no process of the job is left
  EndSignals end_signals_;
};

}  // namespace

JobOutcome supervise_job(const RunOptions& options, SignalSource signals,
                         std::unique_ptr<bootstrap::StoreService> store, std::unique_ptr<Output> output,
                         std::unique_ptr<JobProcesses> processes, const CodeOf& code_of) {
  return Job(options, std::move(signals), std::move(store), std::move(output), std::move(processes), code_of).run();
}

}  // namespace xoe::launch

// xoe-trainer: the built-in trainer, which xoe-train becomes once its command line is understood.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/env.h"
#include "core/base/file_identity.h"
#include "core/base/freed_memory.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/comm/init.h"
#include "train/cli/train_command_line.h"
#include "train/trainer/export.h"
#include "train/trainer/job_status.h"
#include "train/trainer/texts.h"
#include "train/trainer/trainer.h"

namespace {

using namespace xoe;

constexpr int kFailure = 1;
constexpr int kInterrupted = 130;
constexpr int kResized = -1;  // no exit code: the run goes on in the next world
constexpr auto kLookEvery = std::chrono::milliseconds(50);
constexpr auto kNewsTimeout = std::chrono::seconds(10);
constexpr const char* kSurvivesVariable = "XOE_MIN_RANKS";

std::atomic<bool> stop_asked{false};
std::atomic<std::int64_t> stop_asked_at{0};  // milliseconds; 0: not yet

// `timeout` and some shells send a signal to the process and to its group: twice, but meant once.
constexpr std::int64_t kSameSignalMs = 250;

// The first signal asks for a clean stop, a later one ends the process at once.
void on_signal(int signal) {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ms = std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
  std::int64_t first = 0;
  if (stop_asked_at.compare_exchange_strong(first, ms)) return stop_asked.store(true, std::memory_order_relaxed);
  if (ms - first < kSameSignalMs) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// A file-size limit or a reader that went away is an error like others, not the end of the process.
void report_failed_writes() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

void watch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  // By it batch systems say that the time is nearly over; SIGTERM follows. It is ignored where it is meant for a
  // launcher, whose host leaves the job.
  struct sigaction before = {};
  ::sigaction(SIGUSR1, nullptr, &before);
  action.sa_handler = [](int) { stop_asked.store(true, std::memory_order_relaxed); };
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGUSR1, &action, nullptr);
  report_failed_writes();
}

// Whether a bar that is drawn on stdout is seen: a terminal, or the pipe to a launcher that has one.
bool shows_bars() {
  if (::isatty(STDOUT_FILENO) == 1) return true;
  const auto pipe = Env::process().text("XOE_TERMINAL");
  return pipe && *pipe == file_identity(STDOUT_FILENO);
}

// Prints what rank 0 tells: lines, and a progress bar below them where it is seen. Within a TrainJob it posts, too.
class Console : public train::Listener {
 public:
  explicit Console(const TrainCommandLine& options) : options_(options), bar_(!options_.json && shows_bars()) {}
  // When the group is left: the other ranks do not wait for the last post.
  ~Console() override {
    if (!status_) return;
    if (const std::string failure = status_->post_last(); !failure.empty()) Console::warned(failure);
  }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool failed_together() const noexcept { return failed_together_; }
  // When a world has ended: its failure says nothing about the next one.
  void forget_failure() noexcept { failed_together_ = false; }

  void started(const train::RunStart& start) override {
    if (!status_) open_status();
    if (status_) status_->started(start);
    if (options_.json) return line(train::start_json(start));
    line(train::start_lines(start));
    line(train::report_header());
  }
  void stepped(std::int64_t step, std::int64_t total) override {
    if (status_) post_status(step, total);
    const auto now = std::chrono::steady_clock::now();
    if (!bar_ || (step < total && now - drawn_ < kDrawEvery)) return;
    drawn_ = now;
    constexpr std::int64_t kCells = 40;
    const auto full = static_cast<std::size_t>(step * kCells / std::max<std::int64_t>(1, total));
    fmt::print("\r[{}{}] {}/{}", std::string(full, '='), std::string(kCells - full, ' '), step, total);
    std::fflush(stdout);
  }
  void resized(const train::Resized& resized) override {
    line(options_.json ? train::resized_json(resized) : train::resized_lines(resized));
  }
  void reported(const train::Report& report) override {
    if (status_) status_->reported(report);
    line(options_.json ? train::report_json(report) : train::report_line(report));
  }
  void evaluated(const train::Evaluation& evaluation) override {
    if (status_) status_->evaluated(evaluation);
    line(options_.json ? train::evaluation_json(evaluation) : train::evaluation_line(evaluation));
  }
  void noted(std::string_view message) override {
    if (!options_.json) line(message);
  }
  void warned(std::string_view message) override {
    if (bar_) fmt::print("{}", kEraseLine);
    std::fflush(stdout);
    fmt::print(stderr, "xoe: {}\n", message);
  }
  void failed_everywhere() override { failed_together_ = true; }

  void finished(const train::Outcome& outcome) {
    if (status_) status_->finished(outcome);
    line(options_.json ? train::outcome_json(outcome) : train::outcome_lines(outcome));
    if (!options_.summary.empty()) line(train::summary_line(options_.summary, outcome));
  }

 private:
  static constexpr auto kDrawEvery = std::chrono::milliseconds(100);
  static constexpr std::string_view kEraseLine = "\r\x1b[2K";

  void line(std::string_view text) {
    if (bar_) fmt::print("{}", kEraseLine);
    fmt::print("{}\n", text);
    std::fflush(stdout);
  }

  void open_status() {
    const auto server = train::find_status_server(Env::process());
    if (!server) return;
    auto status = train::JobStatus::open(*server);
    if (!status) return warned(fmt::format("the status of the TrainJob is not posted: {}", status.error().message()));
    status_.emplace(std::move(*status));
  }

  void post_status(std::int64_t step, std::int64_t total) {
    status_->stepped(step, total);
    if (const std::string failure = status_->failure(); !failure.empty()) warned(failure);
  }

  const TrainCommandLine& options_;
  std::optional<train::RunStatus> status_;
  bool bar_;
  std::chrono::steady_clock::time_point drawn_ = {};
  bool failed_together_ = false;
};

void print_error(const Error& error) {
  fmt::print(stderr, "error: {}\n", printable_utf8(error.to_string()));  // names of files may hold anything
  std::fflush(stderr);
}

int run_in(Joined& joined, const train::TrainOptions& options, Console& console, train::Resizing* resizing) {
  Communicator& comm = joined.world;
  const auto outcome = train::train(options, comm, console, stop_asked, resizing);
  if (!outcome) {
    const Code code = outcome.error().code();
    const bool group_lost = code == Code::kPeerLost || code == Code::kTimeout;
    const bool together = console.failed_together() && !group_lost;
    if (!together || comm.rank() == 0) print_error(outcome.error());
    // So that no rank ends, and is taken for the culprit, before rank 0 has said why.
    if (together) (void)comm.barrier({.timeout = std::chrono::seconds(1)});
    return kFailure;
  }
  if (outcome->resized) return kResized;
  if (comm.rank() == 0) console.finished(*outcome);
  // The same for exit code 130.
  if (outcome->interrupted) (void)comm.barrier({.timeout = std::chrono::seconds(1)});
  return outcome->interrupted ? kInterrupted : 0;
}

// Joins the world. nullopt: a signal has asked this process to stop, while it waits for other ranks.
std::optional<Result<Joined>> join_unless_stopped() {
  const auto joining = std::make_shared<std::promise<Result<Joined>>>();
  auto joined = joining->get_future();
  std::thread([joining] { joining->set_value(join(Env::process(), {}, {}, {}, TellsFormed::kLater)); }).detach();
  while (joined.wait_for(kLookEvery) != std::future_status::ready)
    if (stop_asked.load(std::memory_order_relaxed)) return std::nullopt;
  return joined.get();
}

// Each host has a page of its own, which tells its ranks soon after those of others whether they stay or leave.
void await_change(const Joined& joined) {
  const auto last = std::chrono::steady_clock::now() + kNewsTimeout;
  while (joined.change() == bootstrap::WorldView::Change::kStay && std::chrono::steady_clock::now() < last)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// What becomes of this rank after the version of the world that it is in.
train::Resizing::Next next_of(bootstrap::WorldView::Change change) {
  using Change = bootstrap::WorldView::Change;
  using Next = train::Resizing::Next;
  if (change == Change::kStay) return Next::kStays;
  return change == Change::kLeave ? Next::kLeaves : Next::kGoesOver;
}

// Writes what is in this process alone, and ends it while a thread still waits for other ranks.
[[noreturn]] void stop_waiting(const train::TrainOptions& options, const train::Resizing& resizing) {
  const Error stopped(Code::kUnavailable, "a signal came while the rank waited for the others");
  print_error(train::keep_state_of(stopped, options, resizing));
  std::_Exit(kInterrupted);
}

// Of a rank whose world may change: what it gets of the data, unless ranks have come or left before.
std::optional<train::Share> likely_share(const Env& env) {
  const auto rank = env.integer("XOE_RANK", 0, bootstrap::kMostSlots - 1);
  const auto size = env.integer("XOE_SIZE", 1, bootstrap::kMostSlots);
  if (!env.has(bootstrap::kWorldVariable) || !rank || !*rank || !size || !*size || **rank >= **size)
    return std::nullopt;
  const auto number = static_cast<int>(**rank);
  const auto count = static_cast<int>(**size);
  return train::Share{.rank = number, .size = count, .local_size = count};
}

// Whether the training has begun without this rank.
bool joins_others(const Env& env) {
  const auto view = bootstrap::WorldView::of_process(env);
  return view && view->is_newcomer();
}

// Trains in one world after the other, where the number of ranks changes; else in the one that there is. Returns the
// exit code.
int run(const TrainCommandLine& line) {
  Console console(line);
  const train::TrainOptions& options = line.options;
  train::Resizing resizing;
  if (const auto share = likely_share(Env::process()))
    train::prepare_rank(options, *share, joins_others(Env::process()), console, resizing);
  std::pair<int, std::int64_t> last(-1, -1);  // the version of the world, and the step after which it lost a rank
  while (true) {
    auto attempt = join_unless_stopped();
    if (!attempt) stop_waiting(options, resizing);
    Result<Joined>& joined = *attempt;
    // The lost rank lives, and the launcher knows of no loss: the same would happen again and again.
    const bool again = joined && !resizing.loss.empty() && last == std::pair(joined->version, resizing.step);
    if (!joined || again) {
      print_error(
          train::keep_state_of(again ? Error(Code::kPeerLost, resizing.loss) : joined.error(), options, resizing));
      return kFailure;
    }
    last = {joined->version, resizing.step};
    resizing.version = joined->version;
    resizing.loss.clear();
    console.forget_failure();
    using Change = bootstrap::WorldView::Change;
    bool gone_over = false;
    resizing.gone_over = [&] {
      gone_over = true;
      if (joined->tell_formed) joined->tell_formed();
    };
    resizing.next = [&] { return next_of(joined->change()); };
    // The launcher can do without those that join for as long as they have no state.
    resizing.survives = [&] { return Env::process().has(kSurvivesVariable) || (joined->version > 0 && !gone_over); };
    const int code = run_in(*joined, options, console, joined->view.may_change() ? &resizing : nullptr);
    if (code == kResized && resizing.loss.empty()) await_change(*joined);
    if (code != kResized || joined->change() == Change::kLeave) return code == kResized ? 0 : code;
  }
}

int export_weights(const ExportCommandLine& line) {
  report_failed_writes();
  const auto exported = train::export_weights(line.run, line.file);
  if (!exported) {
    print_error(exported.error());
    return kFailure;
  }
  fmt::print("{}: {} of {}, step {}{} ({})\n", line.file, counted(exported->tensors, "tensor"), exported->model,
             exported->step, exported->averaged ? ", moving average" : "", exported->checkpoint);
  return std::fflush(stdout) == 0 ? 0 : kFailure;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto kept = keep_freed_memory(Env::process()); !kept) {
    print_error(kept.error());
    return kFailure;
  }
  auto line = parse_train_command_line(argc, argv);
  if (!line) return line.error();
  if (line->exported) return export_weights(*line->exported);
  if (!line->json) ask_for_run_folder(line->options);
  watch_signals();
  return run(*line);
}

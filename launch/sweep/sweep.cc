#include "launch/sweep/sweep.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "launch/remote/spawn.h"
#include "launch/supervise/signal_source.h"
#include "launch/sweep/trial_command.h"

namespace xoe::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestQuote = 200;
constexpr off_t kReadOfOutput = 1 << 20;  // bytes, from the end: a metric that counts stands there

// Reads the end of a file; gives an empty text where there is no file.
std::string end_of(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return {};
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - kReadOfOutput);
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - begin)), '\0');
  const auto count = ::pread(file.get(), text.data(), text.size(), begin);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  return text;
}

bool may_run_again(const std::optional<TrialRecord>& record) { return !record || !record->problem.empty(); }

// A trial that runs.
struct LiveTrial {
  std::size_t trial = 0;
  std::size_t slot = 0;
  pid_t pid = -1;
  Fd pidfd = {};
  Clock::time_point began = {};
};

class Sweep {
 public:
  Sweep(const SweepPlan& plan, TrialRecords& records, const Env& env, SignalSource signals,
        const std::function<void(const std::string&)>& tell)
      : plan_(plan), records_(records), env_(env), signals_(std::move(signals)), tell_(tell) {
    for (std::size_t trial = 0; trial < plan.trials.size(); ++trial)
      if (may_run_again(records.of(trial))) waiting_.push_back(trial);
    for (std::size_t slot = 0; slot < plan.slots.size(); ++slot) free_.push_back(slot);
  }

  // An error ends the trials that run, in their own time, before it is returned.
  Result<int> run() {
    while (true) {
      while (!free_.empty() && !waiting_.empty() && signal_ == 0 && !error_) note(start());
      if (running_.empty() && error_) return tl::unexpected(*error_);
      if (running_.empty()) return signal_;
      note(wait());
    }
  }

 private:
  void note(const Status& status) {
    if (status || error_) return;
    error_ = status.error();
    for (const LiveTrial& one : running_) ::kill(one.pid, SIGTERM);
  }

  std::string folder_of(std::size_t trial) const { return fmt::format("{}/trial.{}", plan_.folder, trial + 1); }

  // What an earlier attempt has left makes room: a folder that is there has other results in it.
  Status make_place(const std::string& folder) const {
    std::error_code error;
    if (std::filesystem::exists(folder, error)) {
      int number = 1;
      while (std::filesystem::exists(fmt::format("{}-{}", folder, number), error)) ++number;
      std::filesystem::rename(folder, fmt::format("{}-{}", folder, number), error);
    }
    if (!error) std::filesystem::create_directories(folder, error);
    if (error) return failure(Code::kUnavailable, "cannot make the folder {}: {}", folder, error.message());
    return {};
  }

  std::vector<std::string> words_for(std::size_t trial, const std::vector<std::string>& devices) const {
    // On this host, also in a job of a batch system that has others.
    std::vector<std::string> words{plan_.xoe, "run", "-H", fmt::format("localhost:{}", plan_.ranks)};
    if (plan_.ranks == 1) words.emplace_back("--no-tag-output");
    if (!devices.empty()) words.insert(words.end(), {"--devices", fmt::format("{}", fmt::join(devices, ","))});
    if (plan_.timeout) words.insert(words.end(), {"--timeout", std::to_string(plan_.timeout->count())});
    words.emplace_back("--");
    const auto command = command_of(plan_.command, plan_.trials[trial], trial + 1, folder_of(trial));
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  std::vector<std::string> variables() const {
    auto all = env_.all();
    if (plan_.threads > 0) all.try_emplace("OMP_NUM_THREADS", std::to_string(plan_.threads));
    std::vector<std::string> entries;
    for (const auto& [name, value] : all) entries.push_back(fmt::format("{}={}", name, value));
    return entries;
  }

  Status start() {
    const std::size_t trial = waiting_.front();
    const std::string folder = folder_of(trial);
    XOE_TRY(make_place(folder));
    const std::string path = folder + "/output.txt";
    const Fd output(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    const Fd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!output.valid() || !input.valid())
      return failure(Code::kUnavailable, "cannot write {}: {}", path, errno_text(errno));
    const auto words = words_for(trial, plan_.slots[free_.front()]);
    const auto entries = variables();
    const auto argv = remote::c_strings(words);
    const auto envp = remote::c_strings(entries);
    remote::SpawnRequest request{.path = plan_.xoe.c_str(), .argv = argv.data(), .envp = envp.data()};
    request.in = input.get();
    request.out = request.err = output.get();
    request.signal_mask = signals_.mask_before();
    request.open_files = limits_;
    auto spawned = remote::spawn(request);
    if (!spawned) return failure(Code::kUnavailable, "cannot start {}: {}", plan_.xoe, errno_text(spawned.error()));
    tell_(fmt::format("trial {} of {} begins: {}", trial + 1, plan_.trials.size(), text_of(plan_.trials[trial])));
    running_.push_back({trial, free_.front(), spawned->pid, std::move(spawned->pidfd), Clock::now()});
    free_.pop_front();
    waiting_.pop_front();
    return {};
  }

  Status wait() {
    std::vector<pollfd> polled{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    for (const LiveTrial& one : running_) polled.push_back({.fd = one.pidfd.get(), .events = POLLIN, .revents = 0});
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR)
      return failure(Code::kInternal, "poll: {}", errno_text(errno));
    while (const auto signal = signals_.next()) pass_on(*signal);
    for (std::size_t i = running_.size(); i-- > 0;) {
      int status = 0;
      if (::waitpid(running_[i].pid, &status, WNOHANG) != running_[i].pid) continue;
      LiveTrial ended = std::move(running_[i]);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      free_.push_back(ended.slot);
      if (signal_ == 0 && !error_) XOE_TRY(conclude(ended, status));
    }
    return {};
  }

  // `xoe run` passes it on to the ranks, and leaves no process behind. A trial that was ended so has not failed: it
  // runs again when the sweep does.
  void pass_on(int signal) {
    for (const LiveTrial& one : running_) ::kill(one.pid, signal);
    if (signal == SIGTSTP) ::raise(SIGSTOP);
    constexpr std::array kEnds{SIGINT, SIGTERM, SIGQUIT, SIGHUP};
    if (std::ranges::find(kEnds, signal) != kEnds.end() && signal_ == 0) signal_ = signal;
  }

  Status conclude(const LiveTrial& ended, int status) {
    TrialRecord record{.code = remote::exit_code_of(status),
                       .seconds = std::chrono::duration<double>(Clock::now() - ended.began).count()};
    const std::string folder = folder_of(ended.trial);
    const std::string output = end_of(folder + "/output.txt");
    if (!plan_.metric.empty()) {
      record.metric = last_value(output, plan_.metric);
      if (!record.metric) record.metric = last_value(end_of(folder + "/metrics.jsonl"), plan_.metric);
    }
    if (record.code != 0) {
      const std::string_view text = trimmed(output);
      const std::string_view last = text.substr(text.find_last_of("\n\r") + 1);
      record.problem = fmt::format("exit code {}: {}", record.code, printable_utf8(last.substr(0, kLongestQuote)));
    } else if (!plan_.metric.empty() && !record.metric) {
      record.problem = fmt::format("it ended well, but printed no {}", plan_.metric);
    } else if (record.metric && std::isnan(*record.metric)) {
      record.problem = fmt::format("its last {} is no number", plan_.metric);
      record.metric.reset();
    }
    const std::string result = !record.problem.empty() ? record.problem
                               : record.metric         ? fmt::format("{} {:g}", plan_.metric, *record.metric)
                                                       : std::string("done");
    tell_(fmt::format("trial {} of {}: {}; {} s: {}", ended.trial + 1, plan_.trials.size(), result,
                      std::lround(record.seconds), text_of(plan_.trials[ended.trial])));
    if (!record.problem.empty() && plan_.stop_at_failure) waiting_.clear();
    return records_.add(ended.trial, record);
  }

  const SweepPlan& plan_;
  TrialRecords& records_;
  const Env& env_;
  SignalSource signals_;
  const std::function<void(const std::string&)>& tell_;
  const rlimit limits_ = remote::Inherited::current(Env()).open_files;
  std::deque<std::size_t> waiting_;  // trials
  std::deque<std::size_t> free_;     // slots
  std::vector<LiveTrial> running_;
  int signal_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<std::vector<std::string>>> slots_for(int jobs, int ranks, const std::vector<std::string>& devices,
                                                        int cores) {
  const int have = devices.empty() ? cores : static_cast<int>(devices.size());
  if (!devices.empty() && ranks > have)
    return failure(Code::kInvalidArgument, "-np {}: each rank of a trial has a GPU of its own, and this machine has {}",
                   ranks, have);
  const int most = std::max(1, have / ranks);
  if (!devices.empty() && jobs > most)
    return failure(Code::kInvalidArgument, "--jobs {}: on {} there is room for {} at a time", jobs,
                   counted(have, "GPU"), counted(most, "trial"));
  std::vector<std::vector<std::string>> slots(static_cast<std::size_t>(jobs > 0 ? jobs : most));
  if (devices.empty()) return slots;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const auto first = devices.begin() + static_cast<std::ptrdiff_t>(slot) * ranks;
    slots[slot].assign(first, first + ranks);
  }
  return slots;
}

Result<SweepEnd> run_sweep(const SweepPlan& plan, TrialRecords& records, const Env& env,
                           const std::function<void(const std::string&)>& tell) {
  reset_child_signal();
  XOE_TRY(remote::allow_open_files(static_cast<int>(plan.slots.size())));
  XOE_ASSIGN(auto signals, SignalSource::open());
  Sweep sweep(plan, records, env, std::move(signals), tell);
  XOE_ASSIGN(const int signal, sweep.run());
  return SweepEnd{.records = records.all(), .signal = signal};
}

}  // namespace xoe::launch

// xoe bench failures: what it costs a training that ranks are killed while it runs.
#include <signal.h>
#include <sys/signalfd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/random_token.h"
#include "core/command_line/parse/command_line.h"
#include "launch/remote/shell.h"
#include "measure/cli/failures/failure_report.h"
#include "measure/cli/output_flags.h"
#include "measure/cli/verbs/verbs.h"
#include "measure/cli/words.h"

namespace xoe::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFailureExamples = R"(
Examples:
  xoe bench failures
  xoe bench failures --ranks 4 --steps 1000 --every 10,30,120 -- --data /data/images --model resnet50 --batch 32
  xoe bench failures --other 'torchrun=torchrun --nproc-per-node 2 --max-restarts 1000 train.py --steps $1 --folder $3'

Each way trains the steps once without failures, then once for each mean time between failures, in which ranks are
killed by SIGKILL at times that are the same for all ways:
  checkpoint  xoe run: the job ends, and begins again from the last checkpoint
  goes on     xoe run --min-np 1 --restarts ...: the others go on, and the lost rank joins again
  others      a shell command, which gets the number of steps as $1, the steps between checkpoints as $2 and an empty
              folder for them as $3. It prints {"event": "process", "rank": R, "pid": P} for each process of a rank and
              {"event": "report", "step": N} for each step, and goes on from its checkpoint when it is started again

Words after -- are flags of `xoe train`; without any: --synthetic --model resnet18 --image-size 32 --batch 8
--threads 1 --classes 10 --lr 1e-4.)";

struct FailureFlags {
  FailureOptions options;
  std::vector<double> every = {5, 15, 60};
  std::int64_t checkpoint_every = 20;
  std::vector<std::string> others;
  std::vector<std::string> train;
  OutputFlags out;
};

// Removes what is in it.
class Scratch {
 public:
  static Result<Scratch> make() {
    XOE_ASSIGN(const std::string token, random_token());
    std::error_code error;
    Scratch scratch(fs::temp_directory_path(error) / ("xoe-bench-failures-" + token.substr(0, 12)));
    XOE_TRY(scratch.clear());
    return scratch;
  }
  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  std::string path() const { return path_; }
  Status clear() const {
    std::error_code error;
    fs::remove_all(path_, error);
    if (!error) fs::create_directories(path_, error);
    return error ? Status(failure(Code::kUnavailable, "{}: {}", path_.string(), error.message())) : Status();
  }

 private:
  explicit Scratch(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// Holds back the signals that ask this process to end, until it has cleaned up behind itself.
class EndSignal {
 public:
  static Result<EndSignal> block() {
    sigset_t taken;
    ::sigemptyset(&taken);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&taken, signal);
    Fd fd(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd.valid()) return failure(Code::kResourceExhausted, "signalfd: {}", errno_text(errno));
    sigset_t before;
    ::sigprocmask(SIG_BLOCK, &taken, &before);
    return EndSignal(std::move(fd), before);
  }
  EndSignal(EndSignal&&) = default;
  EndSignal& operator=(EndSignal&&) = delete;
  // One that has come ends the process now.
  ~EndSignal() {
    if (fd_.valid()) ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  int fd() const noexcept { return fd_.get(); }

 private:
  EndSignal(Fd fd, const sigset_t& before) : fd_(std::move(fd)), before_(before) {}
  Fd fd_;
  sigset_t before_;
};

std::vector<std::string> train_flags(const FailureFlags& flags) {
  if (!flags.train.empty()) return flags.train;
  return {"--synthetic", "--model", "resnet18",  "--image-size", "32",   "--batch", "8",
          "--threads",   "1",       "--classes", "10",           "--lr", "1e-4"};
}

FailureWay way_of_xoe(const FailureFlags& flags, const std::string& name, const std::string& folder,
                      const std::vector<std::string>& run_options, const std::vector<std::string>& train_options) {
  FailureWay way = {.name = name,
                    .words = {program_beside("xoe"), "run", "--no-panel", "-np", fmt::to_string(flags.options.ranks)}};
  auto& words = way.words;
  words.insert(words.end(), run_options.begin(), run_options.end());
  constexpr const char* kTell = R"(echo "{\"event\":\"process\",\"rank\":$XOE_RANK,\"pid\":$$}"; exec "$@")";
  words.insert(words.end(), {"sh", "-c", kTell, "sh", program_beside("xoe"), "train"});
  const auto given = train_flags(flags);
  words.insert(words.end(), given.begin(), given.end());
  words.insert(words.end(), train_options.begin(), train_options.end());
  words.insert(words.end(),
               {"--steps", fmt::to_string(flags.options.steps), "--report-every", "1", "--json", "--checkpoint", folder,
                "--checkpoint-every", fmt::to_string(flags.checkpoint_every), "--resume"});
  return way;
}

Result<std::vector<FailureWay>> ways_of(const FailureFlags& flags, const std::string& folder) {
  std::vector<FailureWay> ways;
  // First the one that ends with a mistake in the flags.
  ways.push_back(way_of_xoe(flags, "checkpoint", folder, {}, {}));
  // The same images a step, whatever ranks there are, so that each way does the same work.
  ways.push_back(way_of_xoe(flags, "goes on", folder, {"--min-np", "1", "--restarts", "10000"},
                            {"--on-resize", "keep-global-batch"}));
  for (const std::string& other : flags.others) {
    const auto equals = other.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == other.size())
      return failure(Code::kInvalidArgument, "--other: '{}' is not NAME=COMMAND", other);
    ways.push_back({.name = other.substr(0, equals),
                    .words = {"/bin/sh", "-c", other.substr(equals + 1), "sh", fmt::to_string(flags.options.steps),
                              fmt::to_string(flags.checkpoint_every), folder}});
  }
  return ways;
}

Status measure_failures(const FailureFlags& flags) {
  for (const double mean : flags.every)
    if (!(mean > 0)) return failure(Code::kInvalidArgument, "--every: {:g} is no time between failures", mean);
  // Signals wait until nothing is left to clean up; children get none of this process's mask.
  XOE_ASSIGN(const EndSignal signal, EndSignal::block());
  XOE_ASSIGN(const Scratch scratch, Scratch::make());
  XOE_ASSIGN(const auto ways, ways_of(flags, scratch.path()));
  FailureStudy study = {.options = flags.options,
                        .checkpoint_every = flags.checkpoint_every,
                        .training = remote::shell_line(train_flags(flags)),
                        .runs = {}};
  std::vector<double> means = {0};
  means.insert(means.end(), flags.every.begin(), flags.every.end());
  for (const FailureWay& way : ways)
    for (const double mean : means) {
      const std::string name =
          fmt::format("{}, {}", way.name, mean > 0 ? fmt::format("a failure every {:g} s", mean) : "no failure");
      const auto tell = [&name](const std::string& line) { fmt::print(stderr, "{}: {}\n", name, line); };
      tell("begins");
      XOE_TRY(scratch.clear());
      XOE_ASSIGN(auto run, run_under_failures(way, flags.options, mean, signal.fd(), tell));
      study.runs.push_back(std::move(run));
    }
  return put_out(flags.out, failures_text(study), to_json(study), [&] { return failures_page(study); });
}

}  // namespace

void add_failures(CLI::App& app, char** /*argv*/, int& code) {
  const auto flags = std::make_shared<FailureFlags>();
  auto* verb = app.add_subcommand("failures", "training while ranks are killed: goodput, and what a failure costs");
  verb->footer(kFailureExamples);
  verb->add_option("FLAGS", flags->train, "of `xoe train`, after --");
  verb->option_defaults()->group("Training");
  tools::add_number(*verb, "--ranks", flags->options.ranks, 2, 1024, "of each training");
  tools::add_number(*verb, "--steps", flags->options.steps, std::int64_t{2}, std::int64_t{1'000'000'000},
                    "that each training does");
  tools::add_number(*verb, "--checkpoint-every", flags->checkpoint_every, std::int64_t{1}, std::int64_t{1'000'000'000},
                    "steps from one checkpoint to the next");
  verb->add_option("--other", flags->others, "another way: a shell command that trains")
      ->type_name("NAME=COMMAND")
      ->allow_extra_args(false);
  verb->option_defaults()->group("Failures");
  tools::add_list(*verb, "--every", flags->every, "mean seconds between failures")
      ->type_name("S,...")
      ->default_str("5,15,60");
  tools::add_setting(*verb, "--seed", flags->options.seed, "of the times and ranks");
  tools::add_setting(*verb, "--silence", flags->options.silence, "seconds without a step after which a run is given up")
      ->check(CLI::Range(1.0, 1e6));
  add_output(*verb, flags->out);
  verb->callback([flags, &code] {
    if (const Status done = measure_failures(*flags); !done) code = failed("failures", done.error());
  });
}

}  // namespace xoe::bench

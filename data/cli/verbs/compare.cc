// xoe data compare: the old and the new way of reading images, for several numbers of ranks.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/output_file.h"
#include "core/base/process_use.h"
#include "core/base/svg.h"
#include "core/base/text.h"
#include "data/cli/verbs/verbs.h"
#include "data/files/listing.h"
#include "data/source/formats.h"
#include "examples/input_pipelines.h"

namespace xoe::tools {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Json = nlohmann::ordered_json;

constexpr double kWantedShare = 0.7;  // of what the new way delivers, unless the time of a step is given

struct CompareOptions {
  examples::WayOptions way = {.directory = {}, .threads = 0};  // threads 0: the cores, shared by the ranks
  std::vector<int> ranks = {1, 2, 4};
  double step_ms = 0;     // of the consumer; 0: the largest number of ranks wants 70 % of what the new way delivers
  double seconds = 5;     // of the measurement, after
  double warmup = 3;      // seconds of warm-up
  std::string plot = {};  // an SVG file; empty: none
  bool json = false;
};

// The result of all ranks of one way together.
struct WayResult {
  std::string way;
  int ranks = 0;
  int threads = 0;  // of each
  double images_per_s = 0;
  double wanted = 0;      // images/s if no consumer waited
  double idle_share = 0;  // of the consumers' time, spent waiting
  double cpu_ms_per_image = 0;
  std::uint64_t memory = 0;
};

// A rank's result, in memory shared with the process that started it.
struct RankResult {
  bool done = false;
  double images = 0;
  double seconds = 0;
  double waited = 0;
  double cpu = 0;
  std::uint64_t memory = 0;
  char error[512] = {};
};

struct RankWork {
  bool old = false;
  examples::WayOptions way;
  Seconds step = Seconds::zero();
  double warmup = 0;
  double seconds = 0;
};

// The consumer of one rank: takes a batch, sleeps for the time of a step, and takes the next.
Status consume(const RankWork& work, Clock::time_point start, RankResult& result) {
  XOE_ASSIGN(const auto next, work.old ? examples::old_way(work.way) : examples::new_way(work.way));
  const auto from = start + std::chrono::duration_cast<Clock::duration>(Seconds(work.warmup));
  std::optional<Clock::time_point> began;
  Clock::time_point now = Clock::now();
  double cpu = 0;
  while (!began || Seconds(now - *began).count() < work.seconds) {
    const auto asked = Clock::now();
    if (!began && asked >= from) {
      began = asked;
      cpu = process_cpu_seconds();
    }
    XOE_ASSIGN(const auto images, next());
    if (!images) return failure(Code::kInternal, "{}", "the data set ended, which endless epochs do not");
    const auto taken = Clock::now();
    if (began) {
      result.images += images->count;
      result.waited += Seconds(taken - asked).count();
    }
    std::this_thread::sleep_until(taken + work.step);
    now = Clock::now();
  }
  result.seconds = Seconds(now - *began).count();
  result.cpu = process_cpu_seconds() - cpu;
  result.memory = process_memory_bytes();
  return {};
}

// Results of `ranks` processes, in memory shared with them.
class SharedResults {
 public:
  explicit SharedResults(std::size_t ranks)
      : bytes_(ranks * sizeof(RankResult)),
        memory_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) return;
    results_ = {new (memory_) RankResult[ranks], ranks};
  }
  SharedResults(const SharedResults&) = delete;
  SharedResults& operator=(const SharedResults&) = delete;
  ~SharedResults() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, bytes_);
  }
  std::span<RankResult> all() const { return results_; }  // empty: no memory

 private:
  std::size_t bytes_;
  void* memory_;
  std::span<RankResult> results_;
};

[[noreturn]] void run_rank(const RankWork& work, Clock::time_point start, pid_t parent, RankResult& result) {
  // Ends with the process that started it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  if (const Status consumed = consume(work, start, result); consumed) {
    result.done = true;
  } else {
    consumed.error().message().copy(result.error, sizeof result.error - 1);
  }
  ::_exit(0);
}

Result<WayResult> run_ranks(RankWork work, int ranks) {
  const SharedResults results(static_cast<std::size_t>(ranks));
  if (results.all().empty())
    return failure(Code::kResourceExhausted, "no shared memory for results: {}", errno_text(errno));
  const auto start = Clock::now();
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  work.way.size = ranks;
  int fork_error = 0;
  for (work.way.rank = 0; work.way.rank < ranks && fork_error == 0; ++work.way.rank) {
    const pid_t child = ::fork();
    if (child == 0) run_rank(work, start, parent, results.all()[static_cast<std::size_t>(work.way.rank)]);
    if (child > 0) children.push_back(child);
    if (child < 0) fork_error = errno;
  }
  if (fork_error != 0)
    for (const pid_t child : children) ::kill(child, SIGKILL);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  if (fork_error != 0) return failure(Code::kResourceExhausted, "cannot fork: {}", errno_text(fork_error));

  WayResult figures{.way = work.old ? "old" : "new", .ranks = ranks, .threads = work.way.threads};
  double cpu = 0;
  double images = 0;
  for (std::size_t rank = 0; rank < results.all().size(); ++rank) {
    const RankResult& result = results.all()[rank];
    if (!result.done)
      return failure(Code::kUnavailable, "the {} way, rank {} of {}: {}", figures.way, rank, ranks,
                     result.error[0] != 0 ? result.error : "its process was killed, as when memory runs out");
    figures.images_per_s += result.images / result.seconds;
    figures.idle_share += result.waited / result.seconds / ranks;
    figures.memory += result.memory;
    cpu += result.cpu;
    images += result.images;
  }
  figures.cpu_ms_per_image = images > 0 ? 1e3 * cpu / images : 0;
  if (work.step > Seconds::zero()) figures.wanted = ranks * work.way.batch / work.step.count();
  return figures;
}

class Comparison {
 public:
  explicit Comparison(const CompareOptions& options)
      : options_(options), cores_(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {}

  Status run() {
    if (options_.ranks.empty() || *std::ranges::min_element(options_.ranks) < 1 ||
        *std::ranges::max_element(options_.ranks) > 256)
      return failure(Code::kInvalidArgument, "{}", "ranks are 1 to 256");
    XOE_TRY(check_format());
    step_ = Seconds(options_.step_ms / 1e3);
    if (options_.step_ms <= 0) XOE_TRY(choose_step());
    for (const int ranks : options_.ranks)
      for (const bool old : {true, false}) {
        XOE_ASSIGN(figures_.emplace_back(), run_ranks(work_of(old, ranks), ranks));
      }
    return {};
  }

  double step_ms() const { return 1e3 * step_.count(); }
  int lowered() const { return lowered_; }
  const std::vector<WayResult>& figures() const { return figures_; }

 private:
  // The two ways are for record files alone.
  Status check_format() const {
    if (!data::is_directory(options_.way.directory))
      return failure(Code::kUnavailable, "{}: no directory; the train-* record files of one are compared",
                     options_.way.directory);
    data::BadRecords absent;
    data::MissingData missing(true, &absent);
    if (record_files(options_.way.directory, missing)) return {};  // whatever lies beside them
    const auto format = data::detect_source_format({.directory = options_.way.directory});
    if (!format || *format == data::SourceFormat::kTfRecord) return {};
    return failure(Code::kInvalidArgument,
                   "{}: a data set of the format {}, but the ways that are compared read TFRecord files: xoe data "
                   "convert {} DIR makes some",
                   options_.way.directory, data::source_format_name(*format), options_.way.directory);
  }

  RankWork work_of(bool old, int ranks) {
    RankWork work{
        .old = old, .way = options_.way, .step = step_, .warmup = options_.warmup, .seconds = options_.seconds};
    if (work.way.threads == 0) work.way.threads = std::max(1, cores_ / ranks);
    if (old) fit_into_memory(work.way, ranks);
    return work;
  }

  // All ranks of the old way together may use half of the available memory.
  void fit_into_memory(examples::WayOptions& way, int ranks) {
    const double image = 3.0 * 4 * static_cast<double>(way.image_size.pixels());
    const auto available = static_cast<double>(available_memory_bytes());
    const double room = (available / 2 / ranks - image * way.shuffle) / (image * way.batch);
    way.ahead = std::clamp(static_cast<int>(std::min(room, 1e6)), 2, way.batch);
    if (way.ahead < way.batch) lowered_ = way.ahead;
  }

  Status choose_step() {
    RankWork probe = work_of(false, 1);
    probe.seconds = std::min(2.0, options_.seconds);
    XOE_ASSIGN(const WayResult most, run_ranks(probe, 1));
    if (!(most.images_per_s > 0)) return failure(Code::kInternal, "{}", "no image came");
    const int ranks = *std::ranges::max_element(options_.ranks);
    step_ = Seconds(ranks * options_.way.batch / (kWantedShare * most.images_per_s));
    return {};
  }

  const CompareOptions& options_;
  int cores_;
  Seconds step_ = Seconds::zero();
  int lowered_ = 0;  // batches ahead of the old way, where memory limits them; 0: it does not
  std::vector<WayResult> figures_;
};

// ---- The plot

constexpr double kWidth = 960;
constexpr double kHeight = 380;
constexpr double kTop = 84;
constexpr double kPlotHeight = 230;

constexpr std::string_view kOldColor = "#c2570c";
constexpr std::string_view kNewColor = "#0b6bcb";

using Anchor = Svg::Anchor;

// A round number not below `value`.
double round_up(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(std::max(value, 1e-9))));
  for (const double step : {1.0, 2.0, 5.0})
    if (step * power >= value) return step * power;
  return 10 * power;
}

struct Panel {
  double left = 0;
  double width = 0;
  double top_value = 1;  // at the upper end

  double y(double value) const { return kTop + kPlotHeight * (1 - value / top_value); }
};

void add_grid(Svg& svg, const Panel& panel, std::string_view title, bool percent) {
  svg.text(panel.left, kTop - 14, Anchor::kStart, Svg::kInk, 14, title);
  for (int i = 0; i <= 4; ++i) {
    const double value = panel.top_value * i / 4;
    svg.line(panel.left, panel.y(value), panel.left + panel.width, panel.y(value), Svg::kGrid);
    svg.text(panel.left - 8, panel.y(value) + 4, Anchor::kEnd, Svg::kFaint, 12,
             percent ? fmt::format("{:.0f} %", 100 * value) : fmt::format("{:.0f}", value));
  }
}

// A pair of bars for each number of ranks; `wanted` marks what the consumers could take.
template <class Value>
void add_bars(Svg& svg, const Panel& panel, std::span<const WayResult> figures, bool percent, Value value) {
  std::vector<int> ranks;
  for (const WayResult& one : figures)
    if (std::ranges::find(ranks, one.ranks) == ranks.end()) ranks.push_back(one.ranks);
  const double group = panel.width / static_cast<double>(ranks.size());
  const double bar = group * 0.34;
  for (const WayResult& one : figures) {
    const auto at = static_cast<double>(std::ranges::find(ranks, one.ranks) - ranks.begin());
    const bool old = one.way == "old";
    const double left = panel.left + at * group + group / 2 + (old ? -bar - 2 : 2);
    const double y = panel.y(std::min(value(one), panel.top_value));
    svg.rect(left, y, bar, kTop + kPlotHeight - y, old ? kOldColor : kNewColor);
    svg.text(left + bar / 2, y - 5, Anchor::kMiddle, Svg::kInk, 11,
             percent ? fmt::format("{:.0f} %", 100 * value(one)) : fmt::format("{:.0f}", value(one)));
    if (!percent && !old) {
      const double middle = panel.left + at * group + group / 2;
      svg.line(middle - bar - 10, panel.y(one.wanted), middle + bar + 10, panel.y(one.wanted), Svg::kInk, "4 3");
    }
  }
  for (std::size_t i = 0; i < ranks.size(); ++i)
    svg.text(panel.left + (static_cast<double>(i) + 0.5) * group, kTop + kPlotHeight + 20, Anchor::kMiddle, Svg::kFaint,
             12, counted(ranks[i], "rank"));
}

// Images/s and idle share over the number of ranks, as an SVG document.
std::string compare_svg(std::span<const WayResult> figures, double step_ms, int batch) {
  Svg svg(kWidth, kHeight);
  svg.text(24, 32, Anchor::kStart, Svg::kInk, 17,
           fmt::format("Reading images: a step of {} images takes {:.0f} ms on each rank", batch, step_ms));
  double most = 0;
  for (const WayResult& one : figures) most = std::max({most, one.images_per_s, one.wanted});
  const Panel speed{.left = 76, .width = 380, .top_value = round_up(1.05 * most)};
  add_grid(svg, speed, "images/s of all ranks; dashed: what they could take", false);
  add_bars(svg, speed, figures, false, [](const WayResult& one) { return one.images_per_s; });
  const Panel idle{.left = 548, .width = 380, .top_value = 1};
  add_grid(svg, idle, "share of time that the consumers idle", true);
  add_bars(svg, idle, figures, true, [](const WayResult& one) { return one.idle_share; });
  for (const auto& [x, color, text] : {std::tuple{76.0, kOldColor, "old way: decode, then shard"},
                                       std::tuple{330.0, kNewColor, "new way: shard, then decode into the batch"}}) {
    svg.rect(x, 348, 12, 12, color);
    svg.text(x + 18, 359, Anchor::kStart, Svg::kInk, 13, text);
  }
  return std::move(svg).finish();
}

void print_json(const CompareOptions& options, const Comparison& comparison) {
  Json out = {{"directory", options.way.directory},
              {"batch", options.way.batch},
              {"step_ms", comparison.step_ms()},
              {"figures", Json::array()}};
  for (const WayResult& one : comparison.figures())
    out["figures"].push_back({{"way", one.way},
                              {"ranks", one.ranks},
                              {"threads", one.threads},
                              {"images_per_s", one.images_per_s},
                              {"wanted_images_per_s", one.wanted},
                              {"idle_share", one.idle_share},
                              {"cpu_ms_per_image", one.cpu_ms_per_image},
                              {"memory_bytes", one.memory}});
  fmt::print("{}\n", json_text(out));
}

void print_text(const CompareOptions& options, const Comparison& comparison) {
  fmt::print("{}: a consumer on each rank takes {} images in {:.1f} ms (it sleeps: no accelerator is here)\n",
             options.way.directory, options.way.batch, comparison.step_ms());
  if (comparison.lowered() > 0)
    fmt::print("the old way makes only {} ahead, not {}: memory is short\n", counted(comparison.lowered(), "batch"),
               options.way.batch);
  fmt::print("{:<4} {:>6} {:>13} {:>9} {:>7} {:>10} {:>16} {:>10}\n", "way", "ranks", "threads each", "images/s",
             "wanted", "idle", "CPU-ms an image", "memory");
  for (const WayResult& one : comparison.figures())
    fmt::print("{:<4} {:>6} {:>13} {:>9.0f} {:>7.0f} {:>8.1f} % {:>16.2f} {:>10}\n", one.way, one.ranks, one.threads,
               one.images_per_s, one.wanted, 100 * one.idle_share, one.cpu_ms_per_image, human_bytes(one.memory));
  fmt::print("old: every rank decodes all images and drops those of the others. new: ranks share the files first.\n");
  if (!options.plot.empty()) fmt::print("saved {}\n", options.plot);
}

Result<int> compare(const CompareOptions& options) {
  Comparison comparison(options);
  XOE_TRY(comparison.run());
  if (!options.plot.empty())
    XOE_TRY(write_file(options.plot, compare_svg(comparison.figures(), comparison.step_ms(), options.way.batch)));
  options.json ? print_json(options, comparison) : print_text(options, comparison);
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand("compare", "show why reading images the old way does not scale over ranks");
  const auto request = std::make_shared<CompareOptions>();
  CompareOptions& options = *request;
  verb->add_option("DIR", options.way.directory, "the directory of the train-* record files")->required();
  add_setting(*verb, "--ranks", options.ranks, "numbers of processes, e.g. 1,2,4")->delimiter(',');
  verb->add_option("--step-ms", options.step_ms,
                   "that a consumer takes for a batch (default: most ranks want 70 % of what the new way makes)")
      ->check(CLI::PositiveNumber);
  add_number(*verb, "--batch", options.way.batch, 1, 4096, "images");
  using examples::WayOptions;
  constexpr auto kSize = describe::line_of<&Images::image_size>();
  add_option_of(*verb, describe::field<&WayOptions::image_size>(kSize.name, kSize.rules), options.way);
  add_field_options(*verb, options.way.pixels);
  add_number(*verb, "--shuffle", options.way.shuffle, 0, 1 << 20, "elements in the shuffle buffer");
  add_setting(*verb, "--label-offset", options.way.label_offset, "the label stored for the first class");
  constexpr auto kMissing = describe::line_of<&Images::allow_missing>();
  add_option_of(*verb, describe::field<&WayOptions::allow_missing>(kMissing.name, kMissing.rules), options.way);
  add_max_bad_option(*verb, options.way.max_bad, "bad images of a rank to leave out of an epoch; one more is an error");
  add_number(*verb, "--threads", options.way.threads, 0, 1024, "of each rank; 0: the cores, shared by the ranks");
  add_number(*verb, "--seconds", options.seconds, 0.01, 1e6, "that are measured, for each way and number of ranks");
  add_number(*verb, "--warmup", options.warmup, 0., 1e6, "seconds before that");
  verb->add_option("--plot", options.plot, "an SVG file to write");
  verb->add_flag("--json", options.json, "print the result as one line of JSON");
  verb->footer("Example:\n  xoe data compare data --ranks 1,2,4 --plot compare.svg");
  verb->callback([request, &code] { code = finish("compare", compare(*request), request->json); });
}

}  // namespace xoe::tools

// xoe data bench: measures how fast this machine makes batches of a data set, and at what cost.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.h"
#include "core/base/process_use.h"
#include "core/base/text.h"
#include "data/cli/verbs/verbs.h"
#include "xoe/data/images.h"

namespace xoe::tools {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Json = nlohmann::ordered_json;

constexpr double kMemoryEvery = 0.5;  // seconds between measurements of the process's memory

double since(Clock::time_point start) { return Seconds(Clock::now() - start).count(); }

struct BenchOptions {
  data::ImagePipelineOptions pipeline = {.batch = 64, .threads = 0};  // threads 0: kAutoThreads
  bool explain = false;
  double seconds = 8;   // of the measurement, after
  double warmup = 3;    // seconds of warm-up
  double consumer = 0;  // images/s of an emulated consumer; 0: none
  bool json = false;
};

std::string_view mode_of(const BenchOptions& options) {
  return options.pipeline.quality == data::Quality::kFast ? "fast" : "exact";
}

// One measurement.
struct Measurement {
  std::int64_t images = 0;
  double seconds = 0;
  double cpu = 0;
  double waited = 0;  // seconds of the consumer in next()

  double images_per_s() const { return static_cast<double>(images) / seconds; }
  double cpu_ms_per_image() const { return images == 0 ? 0 : 1e3 * cpu / static_cast<double>(images); }
  double cores() const { return cpu / seconds; }
  double stall_share() const { return waited / seconds; }
};

// The consumer: touches one element of each batch.
class Consumer {
 public:
  explicit Consumer(data::ImageIterator& images) : images_(images) {}

  // Takes batches for `seconds`, at least one. With `step` it sleeps that long for each, to emulate a consumer.
  Result<Measurement> take(double seconds, Seconds step = Seconds::zero()) {
    Measurement window;
    const double cpu = process_cpu_seconds();
    const double own = measuring_;
    const double waited = images_.waited_seconds();
    const auto start = Clock::now();
    do {
      XOE_ASSIGN(const auto batch, images_.next());
      if (!batch) return failure(Code::kInternal, "{}", "the data set ended, which endless epochs do not");
      const auto taken = Clock::now();
      touched_ = *static_cast<const char*>(batch->pixels.get());
      window.images += batch->count;
      measure_memory();
      if (step > Seconds::zero()) std::this_thread::sleep_until(taken + step);
    } while (since(start) < seconds);
    window.seconds = since(start);
    window.cpu = process_cpu_seconds() - cpu - (measuring_ - own);
    window.waited = images_.waited_seconds() - waited;
    return window;
  }

  std::uint64_t memory() const { return memory_; }

 private:
  void measure_memory() {
    if (measured_ && since(*measured_) < kMemoryEvery) return;
    measured_ = Clock::now();
    const double before = thread_cpu_seconds();
    memory_ = std::max(memory_, process_memory_bytes());
    measuring_ += thread_cpu_seconds() - before;
  }

  data::ImageIterator& images_;
  std::optional<Clock::time_point> measured_;
  std::uint64_t memory_ = 0;
  double measuring_ = 0;  // CPU seconds spent on measuring memory, which are not the pipeline's
  volatile char touched_ = 0;
};

// How well the machine feeds a consumer of a given speed.
struct EmulatedConsumer {
  Measurement window;
  double threads_needed = 0;
  int threads_missing = 0;
};

struct BenchResult {
  Measurement window;
  int threads = 0;
  double opened = 0;       // seconds from opening the files to the first batch
  double first_batch = 0;  // seconds from the start of the process to the first batch
  std::uint64_t memory = 0;
  std::int64_t skipped = 0;
  data::PipelineReport report;
  std::optional<EmulatedConsumer> emulated;
};

Result<EmulatedConsumer> emulate_consumer(Consumer& consumer, const BenchOptions& options, const BenchResult& result) {
  EmulatedConsumer emulated;
  const Seconds step(options.pipeline.batch / options.consumer);
  XOE_TRY(consumer.take(std::min(1.0, options.warmup), step));
  XOE_ASSIGN(emulated.window, consumer.take(options.seconds, step));
  emulated.threads_needed = options.consumer / result.window.images_per_s() * result.threads;
  emulated.threads_missing = std::max(0, static_cast<int>(std::ceil(emulated.threads_needed)) - result.threads);
  return emulated;
}

Result<BenchResult> measure(const BenchOptions& options) {
  BenchResult result;
  data::ImagePipelineOptions pipeline = options.pipeline;
  if (pipeline.threads <= 0) pipeline.threads = data::kAutoThreads;
  const auto start = Clock::now();
  XOE_ASSIGN(const auto images, data::open_images(pipeline));
  Consumer consumer(*images);
  XOE_TRY(consumer.take(0));
  result.opened = since(start);
  result.first_batch = process_age_seconds();
  XOE_TRY(consumer.take(options.warmup));
  XOE_ASSIGN(result.window, consumer.take(options.seconds));
  result.threads = images->report().making.threads;
  if (options.consumer > 0) {
    XOE_TRY(images->restore(images->save()));  // the report below is of the emulated consumer alone
    XOE_ASSIGN(result.emulated, emulate_consumer(consumer, options, result));
  }
  result.report = images->report();
  result.memory = consumer.memory();
  result.skipped = images->skipped();
  return result;
}

Json explained(const data::PipelineReport& report) {
  Json steps = Json::array();
  for (const data::StepReport& step : report.steps)
    steps.push_back(
        {{"name", step.name}, {"thread_seconds", step.seconds}, {"count", step.count}, {"bytes", step.bytes}});
  const data::ThreadPoolStats& making = report.making;
  Json stages = Json::array();
  for (const data::StageReport& stage : report.stages)
    stages.push_back({{"name", stage.name},
                      {"feeds", stage.feeds},
                      {"elements", stage.elements},
                      {"bytes", stage.bytes},
                      {"seconds", stage.seconds},
                      {"input_seconds", stage.waited},
                      {"idle_seconds", stage.idle},
                      {"ready", stage.ready},
                      {"depth", stage.depth},
                      {"threads", stage.threads}});
  return {{"stages", stages},
          {"steps", steps},
          {"threads", making.threads},
          {"most_threads", making.most_threads},
          {"cpus", report.cpus},
          {"depth", making.depth},
          {"most_depth", making.most_depth},
          {"batches_ready", making.ready},
          {"batch_bytes", report.batch_bytes},
          {"idle_thread_seconds", making.idle},
          {"waited_seconds", making.waited},
          {"seconds", making.seconds},
          {"last_tuning", making.last_tuning},
          {"words", data::explain(report)}};
}

void print_json(const BenchOptions& options, const BenchResult& result) {
  Json out = {{"name", fmt::format("xoe-{}", mode_of(options))},
              {"threads", result.threads},
              {"images_per_s", result.window.images_per_s()},
              {"cpu_ms_per_image", result.window.cpu_ms_per_image()},
              {"peak_bytes", result.memory},
              {"peak_resident_bytes", process_peak_bytes()},
              {"first_batch_s", result.first_batch},
              {"opened_first_batch_s", result.opened},
              {"stall_share", result.window.stall_share()},
              {"skipped", result.skipped},
              {"images", result.window.images},
              {"seconds", result.window.seconds}};
  if (options.explain) out["explain"] = explained(result.report);
  if (result.emulated)
    out["emulated_consumer"] = {{"images_per_s", options.consumer},
                                {"fed_images_per_s", result.emulated->window.images_per_s()},
                                {"idle_share", result.emulated->window.stall_share()},
                                {"cores", result.emulated->window.cores()},
                                {"threads_needed", result.emulated->threads_needed},
                                {"threads_missing", result.emulated->threads_missing}};
  fmt::print("{}\n", out.dump());
}

void print_text(const BenchOptions& options, const BenchResult& result) {
  const Measurement& window = result.window;
  fmt::print("{}: {}, batches of {} at {}x{}, {}, {} in {:.1f} s\n", options.pipeline.directory, mode_of(options),
             options.pipeline.batch, options.pipeline.image_size.height, options.pipeline.image_size.width,
             counted(result.threads, "thread"), counted(window.images, "image"), window.seconds);
  fmt::print("  {:.0f} images/s, {:.3f} CPU-ms an image, {:.2f} cores used\n", window.images_per_s(),
             window.cpu_ms_per_image(), window.cores());
  fmt::print("  first batch {:.3f} s after the program's start, {:.3f} s after opening the files\n", result.first_batch,
             result.opened);
  fmt::print("  memory {}, at most {} resident; {} left out\n", human_bytes(result.memory),
             human_bytes(process_peak_bytes()), counted(result.skipped, "bad record"));
  fmt::print("  a consumer without any work waits {:.1f} % of the time\n", 100 * window.stall_share());
  if (options.explain) fmt::print("{}", data::to_table(result.report));
  if (!result.emulated) return;
  const Measurement& emulated = result.emulated->window;
  fmt::print("emulated consumer (it sleeps; there is no accelerator) of {:.0f} images/s:\n", options.consumer);
  fmt::print("  gets {:.0f} images/s and is idle {:.1f} % of the time, waiting for data; {:.2f} cores used\n",
             emulated.images_per_s(), 100 * emulated.stall_share(), emulated.cores());
  if (result.emulated->threads_missing == 0) {
    fmt::print("  this machine can feed it: {:.0f} images/s need {:.1f} of {}\n", options.consumer,
               result.emulated->threads_needed, counted(result.threads, "thread"));
  } else {
    fmt::print("  this machine feeds up to {:.0f} images/s with {}; {} more are missing\n", window.images_per_s(),
               counted(result.threads, "thread"), result.emulated->threads_missing);
  }
}

Result<int> bench(const BenchOptions& options) {
  XOE_ASSIGN(const BenchResult result, measure(options));
  options.json ? print_json(options, result) : print_text(options, result);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand("bench", "measure how fast batches of a data set are made, and at what cost");
  const auto request = std::make_shared<BenchOptions>();
  BenchOptions& options = *request;
  verb->add_option("DIR", options.pipeline.directory, "the directory of the record files")->required();
  add_field_option<&Images::pattern>(*verb, options.pipeline);
  add_missing_option(*verb, options.pipeline);
  add_max_bad_option(*verb, options.pipeline);
  add_field_option<&Images::batch>(*verb, options.pipeline);
  add_field_option<&Images::image_size>(*verb, options.pipeline);
  add_field_options(*verb, options.pipeline.pixels);
  add_setting(*verb, "--threads", options.pipeline.threads, "0: as many as are needed, up to the CPUs that were given");
  add_field_option<&Images::classes>(*verb, options.pipeline);
  add_label_options(*verb, options.pipeline);
  add_field_option<&Images::shuffle_buffer>(*verb, options.pipeline, "--shuffle");
  add_field_option<&Images::quality>(*verb, options.pipeline, "--mode");
  std::vector<std::pair<std::string, DType>> types;
  for (const DType type : {DType::kUint8, DType::kFloat16, DType::kBfloat16, DType::kFloat32})
    types.emplace_back(dtype_name(type), type);
  add_choice(*verb, "--dtype", options.pipeline.dtype, std::move(types), "of the pixels");
  verb->add_flag("--explain", options.explain, "say where the time goes, and what would help");
  add_number(*verb, "--seconds", options.seconds, 0.01, 1e6, "that are measured");
  add_number(*verb, "--warmup", options.warmup, 0., 1e6, "seconds before that");
  verb->add_option("--consumer", options.consumer, "images/s of an emulated consumer: says whether it can be fed")
      ->check(CLI::PositiveNumber);
  verb->add_flag("--json", options.json, "print the result as one line of JSON");
  verb->footer("Example:\n  xoe data bench data --image-size 224 --explain");
  verb->callback([request, &code] { code = finish("bench", bench(*request), request->json); });
}

}  // namespace xoe::tools

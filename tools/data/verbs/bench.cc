#include "tools/data/verbs/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/process_use.h"
#include "base/text.h"
#include "xoe/data/images.h"

namespace xoe::tools {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Json = nlohmann::ordered_json;

constexpr double kMemoryEvery = 0.5;  // seconds between looks at the process's memory

double since(Clock::time_point start) { return Seconds(Clock::now() - start).count(); }

Result<data::ImagePipelineOptions> pipeline_of(const DataBenchOptions& options) {
  data::ImagePipelineOptions pipeline;
  pipeline.directory = options.directory;
  pipeline.pattern = options.pattern;
  pipeline.batch = options.batch;
  pipeline.image_size = options.image_size;
  pipeline.threads = options.threads > 0 ? options.threads : data::kAutoThreads;
  pipeline.shuffle_buffer = options.shuffle;
  if (options.mode != "exact" && options.mode != "fast")
    return failure(Code::kInvalidArgument, "--mode is exact or fast, not {}", options.mode);
  pipeline.quality = options.mode == "fast" ? data::Quality::kFast : data::Quality::kExact;
  for (const DType dtype : {DType::kUint8, DType::kFloat16, DType::kBfloat16, DType::kFloat32})
    if (options.dtype == dtype_name(dtype)) {
      pipeline.dtype = dtype;
      return pipeline;
    }
  return failure(Code::kInvalidArgument, "--dtype is uint8, float16, bfloat16 or float32, not {}", options.dtype);
}

// What happened in a stretch of time.
struct Window {
  std::int64_t images = 0;
  double seconds = 0;
  double cpu = 0;
  double waited = 0;  // by the consumer, in next()

  double images_per_s() const { return static_cast<double>(images) / seconds; }
  double cpu_ms_per_image() const { return images == 0 ? 0 : 1e3 * cpu / static_cast<double>(images); }
  double cores() const { return cpu / seconds; }
  double stall_share() const { return waited / seconds; }
};

// The consumer: touches one element of each batch.
class Consumer {
 public:
  explicit Consumer(data::ImageIterator& images) : images_(images) {}

  // Takes batches for so long, at least one. With `step` it works that long on each: an emulation, which sleeps.
  Result<Window> take(double seconds, Seconds step = Seconds::zero()) {
    Window window;
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
      look_at_memory();
      if (step > Seconds::zero()) std::this_thread::sleep_until(taken + step);
    } while (since(start) < seconds);
    window.seconds = since(start);
    window.cpu = process_cpu_seconds() - cpu - (measuring_ - own);
    window.waited = images_.waited_seconds() - waited;
    return window;
  }

  std::uint64_t memory() const { return memory_; }

 private:
  void look_at_memory() {
    if (looked_ && since(*looked_) < kMemoryEvery) return;
    looked_ = Clock::now();
    const double before = thread_cpu_seconds();
    memory_ = std::max(memory_, process_memory_bytes());
    measuring_ += thread_cpu_seconds() - before;
  }

  data::ImageIterator& images_;
  std::optional<Clock::time_point> looked_;
  std::uint64_t memory_ = 0;
  double measuring_ = 0;  // processor seconds of looking at memory, which are not the pipeline's
  volatile char touched_ = 0;
};

// How far the machine can feed a consumer of a given speed.
struct Fed {
  Window window;
  double threads_needed = 0;
  int threads_missing = 0;
};

struct Figures {
  Window window;
  int threads = 0;
  double opened = 0;       // seconds until the first batch, from opening the files
  double first_batch = 0;  // the same from the process's start
  std::uint64_t memory = 0;
  std::int64_t skipped = 0;
  data::PipelineReport report;
  std::optional<Fed> fed;
};

Result<Fed> feed(Consumer& consumer, const DataBenchOptions& options, const Figures& figures) {
  Fed fed;
  const Seconds step(options.batch / options.consumer);
  XOE_TRY(consumer.take(std::min(1.0, options.warmup), step));
  XOE_ASSIGN(fed.window, consumer.take(options.seconds, step));
  fed.threads_needed = options.consumer / figures.window.images_per_s() * figures.threads;
  fed.threads_missing = std::max(0, static_cast<int>(std::ceil(fed.threads_needed)) - figures.threads);
  return fed;
}

Result<Figures> measure(const DataBenchOptions& options) {
  Figures figures;
  XOE_ASSIGN(const auto pipeline, pipeline_of(options));
  const auto start = Clock::now();
  XOE_ASSIGN(const auto images, data::open_images(pipeline));
  Consumer consumer(*images);
  XOE_TRY(consumer.take(0));
  figures.opened = since(start);
  figures.first_batch = process_age_seconds();
  XOE_TRY(consumer.take(options.warmup));
  XOE_ASSIGN(figures.window, consumer.take(options.seconds));
  figures.threads = images->report().making.threads;
  if (options.consumer > 0) {
    XOE_TRY(images->restore(images->save()));  // the report below is of the emulated consumer alone
    XOE_ASSIGN(figures.fed, feed(consumer, options, figures));
  }
  figures.report = images->report();
  figures.memory = consumer.memory();
  figures.skipped = images->skipped();
  return figures;
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

void print_json(const DataBenchOptions& options, const Figures& figures) {
  Json out = {{"name", "xoe-" + options.mode},
              {"threads", figures.threads},
              {"images_per_s", figures.window.images_per_s()},
              {"cpu_ms_per_image", figures.window.cpu_ms_per_image()},
              {"peak_bytes", figures.memory},
              {"peak_resident_bytes", process_peak_bytes()},
              {"first_batch_s", figures.first_batch},
              {"opened_first_batch_s", figures.opened},
              {"stall_share", figures.window.stall_share()},
              {"skipped", figures.skipped},
              {"images", figures.window.images},
              {"seconds", figures.window.seconds}};
  if (options.explain) out["explain"] = explained(figures.report);
  if (figures.fed)
    out["emulated_consumer"] = {{"images_per_s", options.consumer},
                                {"fed_images_per_s", figures.fed->window.images_per_s()},
                                {"idle_share", figures.fed->window.stall_share()},
                                {"cores", figures.fed->window.cores()},
                                {"threads_needed", figures.fed->threads_needed},
                                {"threads_missing", figures.fed->threads_missing}};
  fmt::print("{}\n", out.dump());
}

void print_text(const DataBenchOptions& options, const Figures& figures) {
  const Window& window = figures.window;
  fmt::print("{}: {}, batches of {} at {}x{}, {} threads, {} images in {:.1f} s\n", options.directory, options.mode,
             options.batch, options.image_size, options.image_size, figures.threads, window.images, window.seconds);
  fmt::print("  {:.0f} images/s, {:.3f} CPU-ms an image, {:.2f} cores used\n", window.images_per_s(),
             window.cpu_ms_per_image(), window.cores());
  fmt::print("  first batch {:.3f} s after the program's start, {:.3f} s after opening the files\n",
             figures.first_batch, figures.opened);
  fmt::print("  memory {}, at most {} resident; {} bad records left out\n", human_bytes(figures.memory),
             human_bytes(process_peak_bytes()), figures.skipped);
  fmt::print("  a consumer that does nothing else waits {:.1f} % of the time\n", 100 * window.stall_share());
  if (options.explain) fmt::print("{}", data::to_table(figures.report));
  if (!figures.fed) return;
  const Window& fed = figures.fed->window;
  fmt::print("emulated consumer (it sleeps, no accelerator is here) of {:.0f} images/s:\n", options.consumer);
  fmt::print("  gets {:.0f} images/s and is idle {:.1f} % of the time, waiting for data; {:.2f} cores used\n",
             fed.images_per_s(), 100 * fed.stall_share(), fed.cores());
  if (figures.fed->threads_missing == 0) {
    fmt::print("  this machine can feed it: {:.0f} images/s are {:.1f} of {} threads\n", options.consumer,
               figures.fed->threads_needed, figures.threads);
  } else {
    fmt::print("  this machine feeds up to {:.0f} images/s with {} threads; {} more like these are missing\n",
               window.images_per_s(), figures.threads, figures.fed->threads_missing);
  }
}

}  // namespace

int bench(const DataBenchOptions& options) {
  const auto figures = measure(options);
  if (!figures) {
    if (options.json) fmt::print("{}\n", Json{{"error", figures.error().to_string()}}.dump());
    fmt::print(stderr, "xoe data bench: {}\n", figures.error().message());
    return figures.error().code() == Code::kInvalidArgument ? 2 : 1;
  }
  options.json ? print_json(options, *figures) : print_text(options, *figures);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace xoe::tools

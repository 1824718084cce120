// xoe data: makes, converts, checks and measures data sets.
#include <CLI/CLI.hpp>

#include "tools/data/verbs/bench.h"
#include "tools/data/verbs/compare.h"
#include "tools/data/verbs/verb.h"
#include "tools/data/verbs/verbs.h"

namespace {

void add_bench(CLI::App& app, xoe::tools::DataBenchOptions& options) {
  CLI::App* verb = app.add_subcommand("bench", "measure how fast batches of a data set are made, and at what cost");
  verb->add_option("DIR", options.directory, "the directory of the record files")->required();
  verb->add_option("--pattern", options.pattern, "of file names, with * and ? (default: train-*)");
  verb->add_option("--batch", options.batch, "images")->capture_default_str();
  verb->add_option("--image-size", options.image_size, "height and width of what is made")->capture_default_str();
  verb->add_option("--threads", options.threads, "0: as many as are needed, up to the CPUs that were given")
      ->capture_default_str();
  verb->add_option("--shuffle", options.shuffle, "records in the shuffle buffer")->capture_default_str();
  verb->add_option("--mode", options.mode, "how images are decoded and resized: exact or fast")->capture_default_str();
  verb->add_option("--dtype", options.dtype, "uint8, float16, bfloat16 or float32")->capture_default_str();
  verb->add_flag("--explain", options.explain, "say where the time goes, and what would help");
  verb->add_option("--seconds", options.seconds, "that are measured")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 1e6));
  verb->add_option("--warmup", options.warmup, "seconds before that")
      ->capture_default_str()
      ->check(CLI::Range(0., 1e6));
  verb->add_option("--consumer", options.consumer, "images/s of an emulated consumer: says whether it can be fed")
      ->check(CLI::PositiveNumber);
  verb->add_flag("--json", options.json, "print the result as one line of JSON");
}

void add_compare(CLI::App& app, xoe::tools::DataCompareOptions& options) {
  CLI::App* verb = app.add_subcommand("compare", "show why reading images the old way does not scale over ranks");
  verb->add_option("DIR", options.directory, "the directory of the train-* record files")->required();
  verb->add_option("--ranks", options.ranks, "numbers of processes, e.g. 1,2,4")->delimiter(',')->capture_default_str();
  verb->add_option("--step-ms", options.step_ms,
                   "that a consumer takes for a batch (default: most ranks want 70 % of what the new way makes)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--batch", options.batch, "images")->capture_default_str()->check(CLI::Range(1, 4096));
  verb->add_option("--image-size", options.image_size, "height and width of what is made")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  verb->add_option("--shuffle", options.shuffle, "elements in the shuffle buffer")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  verb->add_option("--threads", options.threads, "of each rank; 0: the cores, shared by the ranks")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  verb->add_option("--seconds", options.seconds, "that are measured, for each way and number of ranks")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 1e6));
  verb->add_option("--warmup", options.warmup, "seconds before that")
      ->capture_default_str()
      ->check(CLI::Range(0., 1e6));
  verb->add_option("--plot", options.plot, "an SVG file to write");
  verb->add_flag("--json", options.json, "print the result as one line of JSON");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace xoe::tools;
  CLI::App app("Makes, converts, checks and measures data sets.", "xoe data");
  app.require_subcommand(1);
  int code = 0;
  add_make(app, code);
  add_convert(app, code);
  add_inspect(app, code);
  add_verify(app, code);
  add_stats(app, code);
  add_index(app, code);
  DataBenchOptions bench_options;
  add_bench(app, bench_options);
  DataCompareOptions compare_options;
  add_compare(app, compare_options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  if (app.got_subcommand("compare")) return compare(compare_options);
  if (app.got_subcommand("bench")) return bench(bench_options);
  return code;
}

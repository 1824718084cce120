// xoe report: a page about training runs, or about the scores of a network.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/command_line/parse/command_line.h"
#include "measure/pages/report_page.h"
#include "measure/pages/scores.h"

namespace {

using namespace xoe;

constexpr int kFailed = 1;

constexpr const char* kExamples = R"(Examples:
  xoe run -np 2 xoe train --data demo-data --run-dir runs/a --timeline runs/a/timeline.json
  xoe doctor --json > runs/a/doctor.json
  xoe report runs/a                    writes runs/a/report.html
  xoe report runs/a runs/b -o ab.html  several runs side by side

  xoe report runs/chexnet/scores.json  AUROCs of examples/chexnet: writes runs/chexnet/scores.html
  xoe report runs/chexnet/scores.json --require 0.95

The page is one file and needs no network: open it in a browser.

Exit codes: 0 done, 1 a file cannot be read or written, or --require is not met, 2 wrong usage
(also: the output is there already, and no page of Xoe).)";

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output;
  std::string timeline;
  pages::ViewOptions view;
  bool overwrite = false;
  std::string data;    // of scores
  double require = 0;  // share of the ideal
};

int failed(const Error& error) {
  fmt::print(stderr, "xoe report: {}\n", error.message());
  return error.code() == Code::kInvalidArgument ? tools::kUsageError : kFailed;
}

// 0 unless something is required that the scores do not reach.
int judge(const pages::ScoresRecord& record, double required) {
  if (required == 0) return 0;
  const auto share = record.share_of_ideal_on_images();
  if (!share) {
    fmt::print(stderr, "xoe report: --require needs phantoms.json and ideal_scores.csv of the test images, in {}\n",
               record.data);
    return kFailed;
  }
  if (*share >= required && record.exceeding().empty()) return 0;
  fmt::print(stderr, "xoe report: {}\n",
             *share < required
                 ? fmt::format("{:.1f} % of the ideal are less than {:.1f} %", *share * 100, required * 100)
                 : std::string("a finding is significantly above the ideal"));
  return kFailed;
}

int report_scores(const ReportOptions& options) {
  const std::string& file = options.runs.front();
  const auto record = pages::read_scores(file, options.data);
  if (!record) return failed(record.error());
  const std::string output = options.output.empty() ? pages::page_path(file) : options.output;
  const std::string html = pages::scores_page(*record);
  if (const Status written = pages::write_page(output, html, options.overwrite); !written)
    return failed(written.error());
  fmt::print("{}\n{}: {}; open it in a browser\n", pages::scores_summary(*record), output, human_bytes(html.size()));
  return judge(*record, options.require);
}

Result<pages::ReportedRun> read_reported(const std::string& folder, const ReportOptions& options) {
  XOE_ASSIGN(auto record, pages::read_run(folder));
  pages::ReportedRun run = {.folder = folder, .record = std::move(record)};
  if (!options.timeline.empty()) {
    XOE_ASSIGN(run.timeline, pages::read_timeline(options.timeline, options.view));
  } else if (!run.record.timeline.empty()) {
    // One that is broken does not keep the rest from being shown.
    if (auto read = pages::read_timeline(run.record.timeline, options.view))
      run.timeline = std::move(*read);
    else
      run.record.notes.push_back(fmt::format("the timeline was left out: {}", read.error().message()));
  }
  for (const std::string& note : run.record.notes)
    fmt::print(stderr, "xoe report: note: {}{}\n", options.runs.size() > 1 ? folder + ": " : "", note);
  return run;
}

// For several runs: what the options say of one alone.
Status check_several(const ReportOptions& options) {
  for (const std::string& run : options.runs)
    if (run.ends_with(".json"))
      return failure(Code::kInvalidArgument, "{}: scores have a page of their own; give one file", run);
  if (options.output.empty())
    return failure(Code::kInvalidArgument, "{}", "say where the page of several runs goes: -o FILE");
  if (!options.timeline.empty())
    return failure(Code::kInvalidArgument, "{}", "--timeline is of one run; those in the folders are shown");
  return {};
}

int report(const ReportOptions& options) {
  if (options.runs.size() > 1) {
    if (const Status fits = check_several(options); !fits) return failed(fits.error());
  } else if (options.runs.front().ends_with(".json")) {
    return report_scores(options);
  }
  std::vector<pages::ReportedRun> runs;
  for (const std::string& folder : options.runs) {
    auto run = read_reported(folder, options);
    if (!run) return failed(run.error());
    runs.push_back(std::move(*run));
  }
  const std::string output = options.output.empty() ? options.runs.front() + "/report.html" : options.output;
  const std::string html = pages::report_page(runs);
  if (const Status written = pages::write_page(output, html, options.overwrite); !written)
    return failed(written.error());
  fmt::print("{}: {}; open it in a browser\n", output, human_bytes(html.size()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Writes a page about one run or several: curves, speed, where the time went, timeline.", "xoe report");
  app.footer(kExamples);
  ReportOptions options;
  app.add_option("RUN", options.runs, "folders of `xoe train --run-dir`, or one file of scores: FILE.json")
      ->required()
      ->expected(1, static_cast<int>(pages::kMostRuns));
  app.add_option("-o,--output", options.output, "the page (default, of one: RUN/report.html, FILE.html)")
      ->type_name("FILE");
  app.add_option("--timeline", options.timeline, "the run's timeline, if it is not in RUN")->type_name("FILE");
  tools::add_number(app, "--events", options.view.events, 1, pages::kMostEvents, "of the timeline, to draw at most");
  app.add_option("--data", options.data, "of scores: the data set's folder (default: as the file says)")
      ->type_name("DIR");
  app.add_option("--require", options.require,
                 "of scores on phantoms: fail below this share of the ideal observer's AUROC above 0.5, or where a "
                 "finding is significantly above it")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--overwrite", options.overwrite, "replace a file that is no page of Xoe");
  if (const auto answer = tools::understand(app, argc, argv)) return tools::tell(*answer);
  for (std::string& run : options.runs)
    while (run.size() > 1 && run.ends_with('/')) run.pop_back();
  return report(options);
}

// xoe report: a page about a training run, or about the scores of a network.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "pages/report_page.h"
#include "pages/scores_page.h"
#include "tools/manners/command_line.h"

namespace {

using namespace xoe;

constexpr int kFailed = 1;

constexpr const char* kExamples = R"(Examples:
  xoe run -np 2 xoe train --data demo-data --run-dir runs/a --timeline runs/a/timeline.json
  xoe doctor --json > runs/a/doctor.json
  xoe report runs/a                    writes runs/a/report.html
  xoe report runs/a -o /tmp/a.html

  xoe report runs/chexnet/scores.json  AUROCs of examples/chexnet: writes runs/chexnet/scores.html
  xoe report runs/chexnet/scores.json --require 0.95

The page is one file and needs no network: open it in a browser.

Exit codes: 0 done, 1 a file cannot be read or written, or --require is not met, 2 wrong usage
(also: the output is there already, and no page of Xoe).)";

struct ReportOptions {
  std::string folder;
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
  const auto record = pages::read_scores(options.folder, options.data);
  if (!record) return failed(record.error());
  const std::string output = options.output.empty() ? pages::page_path(options.folder) : options.output;
  const std::string html = pages::scores_page(*record);
  if (const Status written = pages::write_page(output, html, options.overwrite); !written)
    return failed(written.error());
  fmt::print("{}\n{}: {}; open it in a browser\n", pages::scores_summary(*record), output, human_bytes(html.size()));
  return judge(*record, options.require);
}

int report(const ReportOptions& options) {
  if (options.folder.ends_with(".json")) return report_scores(options);
  auto record = pages::read_run(options.folder);
  if (!record) return failed(record.error());
  std::optional<pages::Timeline> timeline;
  if (!options.timeline.empty()) {
    auto read = pages::read_timeline(options.timeline, options.view);
    if (!read) return failed(read.error());
    timeline = std::move(*read);
  } else if (!record->timeline.empty()) {
    // One that is broken does not keep the rest from being shown.
    if (auto read = pages::read_timeline(record->timeline, options.view)) {
      timeline = std::move(*read);
    } else {
      record->notes.push_back(fmt::format("the timeline was left out: {}", read.error().message()));
    }
  }
  for (const std::string& note : record->notes) fmt::print(stderr, "xoe report: note: {}\n", note);
  const std::string output = options.output.empty() ? options.folder + "/report.html" : options.output;
  const std::string html = pages::report_page(*record, options.folder, timeline ? &*timeline : nullptr);
  if (const Status written = pages::write_page(output, html, options.overwrite); !written)
    return failed(written.error());
  fmt::print("{}: {}; open it in a browser\n", output, human_bytes(html.size()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Writes a page about a run: curves, speed, where the time went, timeline.", "xoe report");
  app.footer(kExamples);
  ReportOptions options;
  app.add_option("RUN", options.folder, "the folder of `xoe train --run-dir`, or a file of scores: FILE.json")
      ->required();
  app.add_option("-o,--output", options.output, "the page (default: RUN/report.html, FILE.html)")->type_name("FILE");
  app.add_option("--timeline", options.timeline, "the run's timeline, if it is not in RUN")->type_name("FILE");
  app.add_option("--events", options.view.events, "of the timeline, to draw at most")
      ->check(CLI::Range(std::size_t{1}, pages::kMostEvents))
      ->capture_default_str();
  app.add_option("--data", options.data, "of scores: the data set's folder (default: as the file says)")
      ->type_name("DIR");
  app.add_option("--require", options.require,
                 "of scores on phantoms: fail below this share of the ideal observer's AUROC above 0.5, or where a "
                 "finding is significantly above it")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--overwrite", options.overwrite, "replace a file that is no page of Xoe");
  if (const auto answer = tools::understand(app, argc, argv)) return tools::tell(*answer);
  while (options.folder.size() > 1 && options.folder.ends_with('/')) options.folder.pop_back();
  return report(options);
}

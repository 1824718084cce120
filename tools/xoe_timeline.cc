// xoe timeline: merges and sums up the traces that ranks have written.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "timeline_report.h"

namespace {

using xoe::trace::MergeOptions;

constexpr int kFailed = 1;
constexpr int kUsageError = 2;

constexpr const char* kExamples = R"(Examples:
  xoe timeline merge run.json run-a.json run-b.json    the files of two hosts in one
  xoe timeline summary run.json                        where the time went
  xoe timeline summary run.json --json | jq .overlap

Open a file with https://ui.perfetto.dev or chrome://tracing. Exit codes: 0, 1 a file is bad or cannot be read or
written, 2 wrong usage (also: a rank is in two files, or the output is there already).)";

struct SummaryOptions {
  std::string file;
  std::size_t tensors = 10;
  bool each_rank = false;
  bool json = false;
};

int failed(const xoe::Error& error, const char* verb, bool json) {
  if (json) fmt::print("{}\n", nlohmann::json{{"error", error.to_string()}}.dump());
  fmt::print(stderr, "xoe timeline {}: {}\n", verb, error.message());
  return error.code() == xoe::Code::kInvalidArgument ? kUsageError : kFailed;
}

void warn(const char* verb, const std::vector<std::string>& warnings) {
  for (const std::string& text : warnings) fmt::print(stderr, "xoe timeline {}: warning: {}\n", verb, text);
}

int print(const char* verb, const std::string& text) {
  fmt::print("{}", text);
  if (std::fflush(stdout) == 0) return 0;
  fmt::print(stderr, "xoe timeline {}: cannot write the output: {}\n", verb, xoe::errno_text(errno));
  return kFailed;
}

bool colours_wanted() {
  const char* none = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (none == nullptr || *none == '\0');
}

int merge(const MergeOptions& options, bool json) {
  const auto report = xoe::trace::merge_traces(options);
  if (!report) return failed(report.error(), "merge", json);
  warn("merge", report->warnings);
  return print("merge", json ? xoe::tools::merge_json(*report, options.output) + "\n"
                             : xoe::tools::merge_text(*report, options.output));
}

int summarize(const SummaryOptions& options) {
  const auto summary = xoe::trace::summarize_trace(options.file, options.tensors);
  if (!summary) return failed(summary.error(), "summary", options.json);
  warn("summary", xoe::tools::summary_warnings(*summary));
  if (options.json) return print("summary", xoe::tools::summary_json(*summary) + "\n");
  return print("summary",
               xoe::tools::summary_text(*summary, {.colours = colours_wanted(), .each_rank = options.each_rank}));
}

void add_merge(CLI::App& app, MergeOptions& options, bool& json) {
  CLI::App* verb = app.add_subcommand("merge", "one trace out of those of several hosts, on one clock");
  verb->add_option("OUT", options.output, "the file to make")->required();
  verb->add_option("FILES", options.inputs, "traces of Xoe, or any Chrome trace")->required();
  verb->add_flag("--overwrite", options.replace, "replace OUT");
  verb->add_flag("--renumber", options.renumber, "give ranks that are in several files other numbers");
  verb->add_flag("--json", json, "print the result as JSON");
}

void add_summary(CLI::App& app, SummaryOptions& options) {
  CLI::App* verb = app.add_subcommand("summary", "where the time went, for each rank and overall");
  verb->add_option("FILE", options.file, "a trace of one host, or a merged one")->required();
  verb->add_option("--tensors", options.tensors, "how many to list")->capture_default_str();
  verb->add_flag("--each-rank", options.each_rank, "every lane of every rank");
  verb->add_flag("--json", options.json, "print JSON, times in ns");
}

}  // namespace

int main(int argc, char** argv) {
  // A full disk, a limit or a closed pipe is an error instead of an end.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Merges and sums up the traces that ranks have written.", "xoe timeline");
  app.require_subcommand(1);
  app.footer(kExamples);
  MergeOptions merge_options;
  SummaryOptions summary_options;
  bool json = false;
  add_merge(app, merge_options, json);
  add_summary(app, summary_options);
  for (CLI::App* verb : app.get_subcommands({})) verb->footer(kExamples);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  return app.got_subcommand("merge") ? merge(merge_options, json) : summarize(summary_options);
}

// xoe timeline: merges, sums up and shows the traces that ranks have written.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "core/command_line/parse/command_line.h"
#include "core/command_line/terminal.h"
#include "core/trace/merge.h"
#include "core/trace/summary.h"
#include "core/trace/text.h"
#include "measure/pages/result_page.h"
#include "measure/pages/timeline_picture.h"
#include "measure/pages/xplane.h"

namespace {

using namespace xoe;
using trace::LengthStats;
using trace::MergeOptions;
using trace::MergeReport;
using trace::Overlap;
using trace::RankSummary;
using trace::TraceRow;
using trace::TraceSummary;
using Json = nlohmann::ordered_json;

using tools::kUsageError;

constexpr int kFailed = 1;

constexpr const char* kExamples = R"(Examples:
  xoe timeline merge run.json run-a.json run-b.json    two hosts in one file
  xoe timeline summary run.json                        where the time went
  xoe timeline summary run.json --json | jq .overlap
  xoe timeline view run.json                           run.html, for a browser
  xoe timeline view run.json --svg run.svg --from 0.5 --milliseconds 70
  xoe timeline view run.json --xprof logs      for TensorBoard's profile plug-in

Exit codes: 0 done, 1 a file is bad or cannot be read or written, 2 wrong usage
(also: a rank is in two files, or the output is there already).)";

constexpr std::size_t kHostName = 20;  // columns

struct SummaryOptions {
  std::string file;
  std::size_t tensors = 10;
  bool each_rank = false;
  bool json = false;
};

struct ViewVerbOptions {
  std::vector<std::string> files;
  std::string output;
  std::string svg;
  std::string xprof;  // folder
  std::string title;
  pages::Stretch stretch;
  pages::ViewOptions view;
  bool overwrite = false;
  bool renumber = false;
};

int failed(const Error& error, const char* verb, bool json) {
  if (json) fmt::print("{}\n", nlohmann::json{{"error", error.to_string()}}.dump());
  fmt::print(stderr, "xoe timeline {}: {}\n", verb, error.message());
  return error.code() == Code::kInvalidArgument ? kUsageError : kFailed;
}

void warn(const char* verb, const std::vector<std::string>& warnings) {
  for (const std::string& text : warnings) fmt::print(stderr, "xoe timeline {}: warning: {}\n", verb, text);
}

int print(const char* verb, const std::string& text) {
  fmt::print("{}", text);
  if (std::fflush(stdout) == 0) return 0;
  fmt::print(stderr, "xoe timeline {}: cannot write the output: {}\n", verb, errno_text(errno));
  return kFailed;
}

bool colours_wanted() { return command_line::colours_wanted(STDOUT_FILENO, Env::process()); }

std::string time_text(std::int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns >= 10'000'000'000) return fmt::format("{:.1f} s", value * 1e-9);
  if (ns >= 1'000'000'000) return fmt::format("{:.2f} s", value * 1e-9);
  if (ns >= 10'000'000) return fmt::format("{:.1f} ms", value * 1e-6);
  if (ns >= 1'000'000) return fmt::format("{:.2f} ms", value * 1e-6);
  if (ns >= 10'000) return fmt::format("{:.0f} us", value * 1e-3);
  return fmt::format("{:.1f} us", value * 1e-3);
}

std::string share_text(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "-";
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80; }

// Names differ at their ends as much as at their beginnings, so the middle goes.
std::string shortened(const std::string& text, std::size_t columns) {
  std::vector<std::size_t> starts;  // of characters
  for (std::size_t i = 0; i < text.size(); ++i)
    if (!continues_character(text[i])) starts.push_back(i);
  if (starts.size() <= columns) return text;
  const std::size_t head = (columns - 2) / 2;
  return text.substr(0, starts[head]) + ".." + text.substr(starts[starts.size() - (columns - 2 - head)]);
}

// Columns of text; the first is flush left.
class Table {
 public:
  explicit Table(std::vector<std::string> heads) { rows_.push_back(std::move(heads)); }
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.size() == 1; }

  // On a terminal it is no wider than that: the first column gives way.
  std::string text(bool colours) const {
    std::vector<std::size_t> widths(rows_[0].size());
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
    }
    std::size_t others = 2 * widths.size();
    for (std::size_t i = 1; i < widths.size(); ++i) others += widths[i];
    const auto columns = static_cast<std::size_t>(command_line::terminal_width(STDOUT_FILENO, kUnlimited));
    widths[0] = std::min(widths[0], std::max(kNarrowest, columns - std::min(columns, others)));
    std::string out;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      std::string line = "  ";
      for (std::size_t i = 0; i < rows_[row].size(); ++i) {
        const std::string cell = i == 0 ? shortened(rows_[row][0], widths[0]) : rows_[row][i];
        const std::string space(widths[i] - width_of(cell), ' ');
        if (i == 0) {
          line.append(cell).append(space);
        } else {
          line.append("  ").append(space).append(cell);
        }
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += row == 0 && colours ? fmt::format("\033[2m{}\033[0m\n", line) : line.append("\n");
    }
    return out;
  }

 private:
  // Characters, not bytes.
  static std::size_t width_of(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), std::not_fn(continues_character)));
  }
  static constexpr int kUnlimited = 1 << 20;
  static constexpr std::size_t kNarrowest = 10;
  std::vector<std::vector<std::string>> rows_;
};

// A trace may be anybody's: no byte of it moves the cursor.
std::string shown(std::string_view text, std::size_t limit = 40) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return trace::shortened_text(out, limit);
}

std::string title(std::string_view text, bool colours) {
  return colours ? fmt::format("\n\033[1m{}\033[0m\n", text) : fmt::format("\n{}\n", text);
}

std::string rows_text(const std::vector<TraceRow>& rows, std::int64_t wall_ns, bool colours) {
  Table table({"lane or span", "busy", "of wall", "count", "mean", "p50", "p99", "max"});
  std::vector<TraceRow> order = rows;
  std::stable_sort(order.begin(), order.end(), [](const TraceRow& a, const TraceRow& b) {
    return a.spans != b.spans ? b.spans : a.busy_ns > b.busy_ns;
  });
  for (const TraceRow& row : order) {
    const LengthStats& lengths = row.lengths;
    table.add({shown(row.name) + (row.spans ? " (span)" : ""), time_text(row.busy_ns), share_text(row.busy_ns, wall_ns),
               fmt::format("{}", lengths.count), time_text(lengths.mean_ns), time_text(lengths.p50_ns),
               time_text(lengths.p99_ns), time_text(lengths.max_ns)});
  }
  return table.text(colours);
}

std::string ranks_text(const TraceSummary& summary, bool colours) {
  Table table({"rank", "host", "wall", "compute", "input", "communication", "hidden"});
  for (const RankSummary& rank : summary.ranks) {
    const Overlap& overlap = rank.overlap;
    table.add({fmt::format("{}", rank.rank), shown(rank.host.empty() ? summary.info.host : rank.host, kHostName),
               time_text(rank.wall_ns), share_text(overlap.compute_ns, rank.wall_ns),
               share_text(rank.input_ns, rank.wall_ns), share_text(overlap.communication_ns, rank.wall_ns),
               share_text(overlap.common_ns, overlap.communication_ns)});
  }
  return table.text(colours);
}

std::string waits_text(const TraceSummary& summary, bool colours) {
  std::string out;
  Table tensors({"tensor", "total", "count", "mean", "p99", "max", "last rank"});
  for (const auto& wait : summary.tensors) {
    const LengthStats& lengths = wait.lengths;
    tensors.add({shown(wait.tensor), time_text(lengths.total_ns), fmt::format("{}", lengths.count),
                 time_text(lengths.mean_ns), time_text(lengths.p99_ns), time_text(lengths.max_ns),
                 fmt::format("{}", wait.slowest_rank)});
  }
  if (!tensors.empty()) out += title("Tensors that waited longest to be agreed upon", colours) + tensors.text(colours);
  Table late({"rank", "others waited", "tensors", "longest"});
  for (const auto& straggler : summary.stragglers) {
    late.add({fmt::format("{}", straggler.rank), time_text(straggler.waited_ns), fmt::format("{}", straggler.count),
              time_text(straggler.longest_ns)});
  }
  if (!late.empty()) out += title("Ranks that others waited for", colours) + late.text(colours);
  return out;
}

Json json_of(const LengthStats& lengths) {
  return {{"count", lengths.count},   {"total_ns", lengths.total_ns}, {"mean_ns", lengths.mean_ns},
          {"p50_ns", lengths.p50_ns}, {"p99_ns", lengths.p99_ns},     {"max_ns", lengths.max_ns}};
}

Json json_of(const std::vector<TraceRow>& rows, std::int64_t wall_ns) {
  Json list = Json::array();
  for (const TraceRow& row : rows) {
    Json entry = {{"name", row.name},
                  {"kind", row.spans ? "span" : "lane"},
                  {"busy_ns", row.busy_ns},
                  {"share_of_wall", share(row.busy_ns, wall_ns)}};
    entry.update(json_of(row.lengths));
    list.push_back(std::move(entry));
  }
  return list;
}

Json json_of(const Overlap& overlap) {
  return {{"compute_ns", overlap.compute_ns},
          {"communication_ns", overlap.communication_ns},
          {"hidden_ns", overlap.common_ns},
          {"hidden_share", share(overlap.common_ns, overlap.communication_ns)}};
}

Json json_of(const trace::TimeShares& shares) {
  return {{"compute_ns", shares.compute_ns},
          {"input_ns", shares.input_ns},
          {"communication_ns", shares.communication_ns},
          {"waiting_ns", shares.waiting_ns},
          {"rest_ns", shares.rest_ns}};
}

std::int64_t wall_of_all(const TraceSummary& summary) {
  std::int64_t wall = 0;
  for (const RankSummary& rank : summary.ranks) wall = trace::sum_ns(wall, rank.wall_ns);
  return wall;
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::vector<std::string> summary_warnings(const TraceSummary& summary) {
  std::vector<std::string> warnings = pages::notes_of(summary);
  if (summary.unfinished > 0) warnings.push_back(fmt::format("spans without an end, left out: {}", summary.unfinished));
  return warnings;
}

// Tables; several lines.
std::string summary_text(const TraceSummary& summary, bool colours, bool each_rank) {
  const std::int64_t wall = wall_of_all(summary);
  std::string out = fmt::format("{}: {}, {}, {}\n", shown(summary.info.path, 200),
                                counted(static_cast<std::int64_t>(summary.ranks.size()), "rank"),
                                counted(summary.events, "event"), time_text(summary.wall_ns));
  if (summary.ranks.empty()) return out;
  out += title("Ranks (hidden: communication behind compute)", colours) + ranks_text(summary, colours);
  out +=
      title("All ranks (busy: summed over them; of wall: the mean)", colours) + rows_text(summary.rows, wall, colours);
  if (each_rank) {
    for (const RankSummary& rank : summary.ranks) {
      out += title(shown(rank.name, 200), colours) + rows_text(rank.rows, rank.wall_ns, colours);
    }
  }
  out += waits_text(summary, colours);
  const Overlap& overlap = summary.overlap;
  if (overlap.communication_ns > 0) {
    out += fmt::format("\nCommunication: {}, of which {} hidden behind compute ({}), {} not.\n",
                       time_text(overlap.communication_ns), time_text(overlap.common_ns),
                       share_text(overlap.common_ns, overlap.communication_ns),
                       time_text(overlap.communication_ns - overlap.common_ns));
  }
  return out;
}

// One JSON object in one line. Times in ns.
std::string summary_json(const TraceSummary& summary) {
  Json ranks = Json::array();
  for (const RankSummary& rank : summary.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"name", rank.name},
                     {"host", rank.host.empty() ? summary.info.host : rank.host},
                     {"wall_ns", rank.wall_ns},
                     {"input_ns", rank.input_ns},
                     {"overlap", json_of(rank.overlap)},
                     {"shares", json_of(rank.shares)},
                     {"rows", json_of(rank.rows, rank.wall_ns)}});
  }
  Json tensors = Json::array();
  for (const auto& wait : summary.tensors) {
    Json entry = {{"tensor", wait.tensor}, {"slowest_rank", wait.slowest_rank}};
    entry.update(json_of(wait.lengths));
    tensors.push_back(std::move(entry));
  }
  Json stragglers = Json::array();
  for (const auto& late : summary.stragglers) {
    stragglers.push_back(
        {{"rank", late.rank}, {"waited_ns", late.waited_ns}, {"count", late.count}, {"longest_ns", late.longest_ns}});
  }
  return dumped({{"file", summary.info.path},
                 {"merged", summary.info.merged},
                 {"events", summary.events},
                 {"dropped", summary.dropped},
                 {"wall_ns", summary.wall_ns},
                 {"ranks", std::move(ranks)},
                 {"rows", json_of(summary.rows, wall_of_all(summary))},
                 {"overlap", json_of(summary.overlap)},
                 {"negotiation", std::move(tensors)},
                 {"stragglers", std::move(stragglers)},
                 {"warnings", summary_warnings(summary)}});
}

std::string merge_text(const MergeReport& report, const std::string& output) {
  Table table({"file", "host", "ranks", "events", "clock", "offset", "give or take"});
  for (const MergeReport::File& file : report.files) {
    const std::int64_t offset = file.clock.shift_ns - file.info.base_ns;
    table.add({shown(file.info.path, 60), shown(file.info.host), fmt::format("{}", fmt::join(file.ranks, ", ")),
               fmt::format("{}", file.events), file.clock.how,
               file.info.ours ? fmt::format("{}{}", offset < 0 ? "-" : "", time_text(std::abs(offset))) : "-",
               file.clock.uncertainty_ns > 0 ? time_text(file.clock.uncertainty_ns) : "-"});
  }
  return table.text(false) +
         fmt::format("{}: {}, {}\n", output, counted(report.events, "event"), time_text(report.length_ns));
}

std::string merge_json(const MergeReport& report, const std::string& output) {
  Json files = Json::array();
  for (const MergeReport::File& file : report.files) {
    files.push_back({{"file", file.info.path},
                     {"host", file.info.host},
                     {"ranks", file.ranks},
                     {"events", file.events},
                     {"clock", file.clock.how},
                     {"clock_offset_ns", file.clock.shift_ns - file.info.base_ns},
                     {"clock_uncertainty_ns", file.clock.uncertainty_ns}});
  }
  return dumped({{"output", output},
                 {"events", report.events},
                 {"length_ns", report.length_ns},
                 {"files", std::move(files)},
                 {"warnings", report.warnings}});
}

int merge(const MergeOptions& options, bool json) {
  const auto report = trace::merge_traces(options);
  if (!report) return failed(report.error(), "merge", json);
  warn("merge", report->warnings);
  return print("merge", json ? merge_json(*report, options.output) + "\n" : merge_text(*report, options.output));
}

int summarize(const SummaryOptions& options) {
  const auto summary = trace::summarize_trace(options.file, options.tensors);
  if (!summary) return failed(summary.error(), "summary", options.json);
  warn("summary", summary_warnings(*summary));
  if (options.json) return print("summary", summary_json(*summary) + "\n");
  return print("summary", summary_text(*summary, colours_wanted(), options.each_rank));
}

Result<trace::UnnamedTrace> merged_for_view(const ViewVerbOptions& options) {
  std::error_code error;
  const auto folder = std::filesystem::temp_directory_path(error);
  if (error) return failure(Code::kUnavailable, "no folder for temporary files: {}", error.message());
  MergeOptions merge;
  merge.inputs = options.files;
  merge.renumber = options.renumber;
  return trace::merge_unnamed(merge, folder);
}

int write_picture(const ViewVerbOptions& options, const pages::Timeline& timeline, const std::string& title) {
  const auto picture = pages::timeline_svg(timeline, options.stretch, title);
  if (!picture) return failed(picture.error(), "view", false);
  if (const Status written = write_file(options.svg, *picture); !written) return failed(written.error(), "view", false);
  return print("view", fmt::format("saved {}\n", options.svg));
}

int write_profile(const ViewVerbOptions& options, const pages::Timeline& timeline) {
  const auto path =
      pages::write_xplane(options.xprof, std::filesystem::path(options.files.front()).stem().string(), timeline);
  if (!path) return failed(path.error(), "view", false);
  return print("view", fmt::format("saved {}; tensorboard --logdir {}\n", *path, options.xprof));
}

int view(const ViewVerbOptions& options) {
  std::string path = options.files.front();
  std::optional<trace::UnnamedTrace> merged;
  if (options.files.size() > 1) {
    auto made = merged_for_view(options);
    if (!made) return failed(made.error(), "view", false);
    merged.emplace(std::move(*made));
    warn("view", merged->report.warnings);
    path = merged->path();
  }
  const auto timeline = pages::read_timeline(path, options.view);
  if (!timeline) return failed(timeline.error(), "view", false);
  warn("view", pages::notes_of(*timeline));
  std::string title = options.title;
  if (title.empty()) {
    title = std::filesystem::path(options.files.front()).filename();
    if (merged)
      title += fmt::format(" and {}", counted(static_cast<std::int64_t>(options.files.size()) - 1, "other file"));
  }
  if (!options.svg.empty()) return write_picture(options, *timeline, title);
  if (!options.xprof.empty()) return write_profile(options, *timeline);
  const std::string output = options.output.empty() ? pages::page_path(options.files.front()) : options.output;
  const std::string html = pages::timeline_page(*timeline, title);
  if (const Status written = pages::write_page(output, html, options.overwrite); !written)
    return failed(written.error(), "view", false);
  return print("view", fmt::format("{}: {}, {}, {}; open it in a browser\n", output,
                                   counted(static_cast<std::int64_t>(timeline->summary.ranks.size()), "rank"),
                                   counted(static_cast<std::int64_t>(timeline->view.events), "event"),
                                   human_bytes(html.size())));
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
  tools::add_setting(*verb, "--tensors", options.tensors, "how many to list");
  verb->add_flag("--each-rank", options.each_rank, "every lane of every rank");
  verb->add_flag("--json", options.json, "print JSON, times in ns");
}

void add_view(CLI::App& app, ViewVerbOptions& options) {
  CLI::App* verb = app.add_subcommand("view", "a page for a browser, to zoom and search in");
  verb->add_option("FILES", options.files, "a trace, or those of several hosts")->required();
  verb->add_option("-o,--output", options.output, "the page (default: FILE.html for FILE.json)")->type_name("PAGE");
  tools::add_number(*verb, "--events", options.view.events, 1, pages::kMostEvents,
                    "to draw at most; the shortest are left out");
  verb->add_flag("--renumber", options.renumber, "give ranks that are in several files other numbers");
  verb->add_flag("--overwrite", options.overwrite, "replace a file that is no page of Xoe");
  verb->add_option("--title", options.title, "of the page or the picture (default: the name of the file)");
  auto* svg = verb->add_option("--svg", options.svg, "draw a stretch into this picture, in place of the page")
                  ->type_name("FILE");
  verb->add_option("--xprof", options.xprof, "write a profile for TensorBoard below this folder, in place of the page")
      ->type_name("LOGDIR")
      ->excludes(svg);
  tools::add_number(*verb, "--from", options.stretch.from_s, 0, 1e9,
                    "where it begins, in seconds after the first event")
      ->needs(svg);
  tools::add_number(*verb, "--milliseconds", options.stretch.length_ms, 1e-6, 1e9, "how long it is")->needs(svg);
}

}  // namespace

int main(int argc, char** argv) {
  // A full disk, a limit or a closed pipe is an error instead of an end.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Merges, sums up and shows the traces that ranks have written.", "xoe timeline");
  app.require_subcommand(1);
  app.footer(kExamples);
  MergeOptions merge_options;
  SummaryOptions summary_options;
  ViewVerbOptions view_options;
  bool json = false;
  add_merge(app, merge_options, json);
  add_summary(app, summary_options);
  add_view(app, view_options);
  for (CLI::App* verb : app.get_subcommands({})) verb->footer(kExamples);
  if (const auto answer = tools::understand(app, argc, argv)) return tools::tell(*answer);
  if (app.got_subcommand("view")) return view(view_options);
  return app.got_subcommand("merge") ? merge(merge_options, json) : summarize(summary_options);
}

// xoe data index: writes and checks the index files of record files.
#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/cli/verbs/progress_line.h"
#include "data/cli/verbs/verbs.h"
#include "data/files/index_path.h"
#include "data/files/listing.h"
#include "data/records/file_index.h"
#include "data/source/formats.h"

namespace xoe::tools {
namespace {

using data::FileIndex;
using data::OpenFile;
using Json = nlohmann::ordered_json;

struct IndexRequest {
  std::vector<std::string> paths;
  bool check = false;
  bool force = false;
  std::int64_t max_bad = 0;  // damaged places of a file
  int threads = 0;
  bool json = false;
};

// The result for one file.
struct IndexResult {
  std::string file;
  std::string state;  // "fresh", "written", "stale", "missing", "damaged", "failed"
  std::string problem;
  std::uint64_t bytes = 0;
  std::uint64_t index_bytes = 0;
  std::int64_t records = 0;
  std::int64_t lost = 0;

  bool good() const { return state == "fresh" || state == "written"; }
};

std::string_view state_of(Code code) {
  switch (code) {
    case Code::kUnavailable: return "missing";
    case Code::kInvalidArgument: return "stale";
    default: return "damaged";
  }
}

void set_good(IndexResult& row, const FileIndex& index, std::string_view state) {
  row.state = state;
  row.records = static_cast<std::int64_t>(index.records.size());
  row.lost = static_cast<std::int64_t>(index.lost.size());
  if (const auto written = OpenFile::open(data::index_path(row.file))) row.index_bytes = written->bytes;
}

void set_bad(IndexResult& row, const Error& error, std::string_view state) {
  row.state = state;
  row.problem = error.message();
}

IndexResult index_file(const std::string& path, const IndexRequest& request) {
  IndexResult row{.file = path, .state = {}, .problem = {}};
  const auto file = OpenFile::open(path);
  if (!file) {
    set_bad(row, file.error(), "failed");
    return row;
  }
  row.bytes = file->bytes;
  const auto there = data::load_index(*file);
  if (there && (request.check || !request.force)) {
    set_good(row, *there, "fresh");
  } else if (request.check) {
    set_bad(row, there.error(), state_of(there.error().code()));
  } else {
    const auto made = data::write_index(
        path,
        {.on_error = request.max_bad > 0 ? data::OnError::kSkip : data::OnError::kFail, .max_lost = request.max_bad});
    made ? set_good(row, *made, "written") : set_bad(row, made.error(), "failed");
  }
  return row;
}

// Why files of other formats get no index; empty: they are record files, or of no known format.
std::string explain_format(const std::string& path) {
  const auto format = data::detect_source_format({.directory = path});
  if (!format || *format == data::SourceFormat::kTfRecord) return {};
  if (*format == data::SourceFormat::kTar)
    return fmt::format(
        "{}: an index is for TFRecord files; archives have none: the headers in them are read, and all of a .tar.gz is "
        "decompressed, each time they are opened. xoe data convert makes TFRecord files of them",
        path);
  return fmt::format(
      "{}: an index is for TFRecord files; a data set of the format {} needs none: each image is found without it",
      path, data::source_format_name(*format));
}

// A file itself, or the record files of a directory.
Result<std::vector<std::string>> files_to_index(const std::string& path, data::MissingData& missing) {
  auto found = record_files(path, missing);
  if (found && data::is_directory(path)) return found;
  if (const std::string why = explain_format(path); !why.empty()) return failure(Code::kInvalidArgument, "{}", why);
  return found;
}

Json to_json(const IndexResult& row) {
  Json out = {{"file", row.file}, {"state", row.state}, {"bytes", row.bytes}};
  if (row.good()) out.update({{"records", row.records}, {"index_bytes", row.index_bytes}, {"lost", row.lost}});
  if (!row.problem.empty()) out["problem"] = row.problem;
  return out;
}

void print(const std::vector<IndexResult>& rows, bool json) {
  Json out = {{"files", Json::array()}, {"records", 0}, {"index_bytes", 0}};
  std::int64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint64_t index_bytes = 0;
  for (const IndexResult& row : rows) {
    records += row.records;
    bytes += row.bytes;
    index_bytes += row.index_bytes;
    if (json) {
      out["files"].push_back(to_json(row));
      continue;
    }
    const std::string state = paint(row.good() ? Paint::kGood : Paint::kBad, fmt::format("{:<8}", row.state));
    if (row.good()) {
      fmt::print("{}{}: {}, index of {}", state, printable_utf8(row.file), counted(row.records, "record"),
                 human_bytes(row.index_bytes));
      fmt::print("{}\n", row.lost > 0 ? fmt::format("; {} left out", counted(row.lost, "damaged place")) : "");
    } else {
      fmt::print("{}{}: {}\n", state, printable_utf8(row.file), printable_utf8(row.problem));
    }
  }
  out["records"] = records;
  out["index_bytes"] = index_bytes;
  if (json)
    fmt::print("{}\n", json_text(out));
  else
    fmt::print("{}, {}, {}; indices of {}\n", counted(std::ssize(rows), "file"), counted(records, "record"),
               human_bytes(bytes), human_bytes(index_bytes));
}

Result<int> index(const IndexRequest& request) {
  catch_signals();
  std::vector<std::string> files;
  data::BadRecords bad;
  data::MissingData missing(true, &bad);
  for (const std::string& path : request.paths) {
    XOE_ASSIGN(const auto found, files_to_index(path, missing));
    files.insert(files.end(), found.begin(), found.end());
  }
  std::vector<IndexResult> rows(files.size());
  std::atomic<std::int64_t> done = 0;
  {
    ProgressLine line("xoe data index", !request.json);
    const auto show = [&] { line.show(done, static_cast<std::int64_t>(files.size()), "files"); };
    const auto work = [&](std::size_t, std::size_t i) {
      rows[i] = index_file(files[i], request);
      ++done;
    };
    if (!run_all(request.threads, files.size(), work, show))
      return failure(Code::kUnavailable, "stopped after {}", counted(done, "file"));
  }
  for (const std::string& message : bad.messages()) {
    const std::size_t end = message.find(": ");
    rows.push_back({.file = message.substr(0, end), .state = "missing", .problem = message.substr(end + 2)});
  }
  print(rows, request.json);
  return std::ranges::all_of(rows, &IndexResult::good) ? 0 : kFailed;
}

}  // namespace

void add_index(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand("index", "write the files that let records be read in any order");
  const auto request = std::make_shared<IndexRequest>();
  verb->add_option("PATH", request->paths, "record files, or directories of them")->required();
  verb->add_flag("--check", request->check, "write nothing; exit code 1 unless every index is there and fits");
  verb->add_flag("--force", request->force, "write those again that fit");
  add_max_bad_option(*verb, request->max_bad, "damaged places of a file to leave out; one more is an error");
  verb->add_flag_function("--skip", [request](std::int64_t) { request->max_bad = data::kUsualBad; })->group("");
  add_number(*verb, "--threads", request->threads, 0, 1024, "files at a time; 0: all cores");
  verb->add_flag("--json", request->json, "print the result as JSON");
  verb->footer(
      "Example:\n  xoe data index data          # beside each file FILE.xoeindex, which every reader uses\n"
      "  xoe data index --check data");
  verb->callback([request, &code] { code = finish("index", index(*request), request->json); });
}

}  // namespace xoe::tools

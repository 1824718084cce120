// The verbs of `xoe data`, each in a file of its own, and what they share: options, signals, threads, colours, exit
// codes, JSON and lists of record files.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/command_line/parse/command_line.h"
#include "core/command_line/parse/field_options.h"
#include "data/cli/image_options.h"
#include "data/files/missing.h"
#include "data/options/image_fields.h"
#include "xoe/data/images.h"
#include "xoe/status.h"

namespace xoe::tools {

// Adds a verb. If the command line names it, parse() runs it: it prints its result, errors to stderr, and sets the
// program's exit code.
void add_make(CLI::App& app, int& code);
void add_make_xray(CLI::App& app, int& code);
void add_convert(CLI::App& app, int& code);
void add_inspect(CLI::App& app, int& code);
void add_verify(CLI::App& app, int& code);
void add_stats(CLI::App& app, int& code);
void add_index(CLI::App& app, int& code);
void add_bench(CLI::App& app, int& code);
void add_compare(CLI::App& app, int& code);
void add_ledger(CLI::App& app, int& code);

// "--split train" or "--split validation".
inline void add_split_option(CLI::App& verb, bool& training) {
  add_choice<bool>(verb, "--split", training, {{"train", true}, {"validation", false}}, "which images");
}

// Options of the image pipeline, as its table has them.
using Images = data::ImagePipelineOptions;
inline void add_missing_option(CLI::App& verb, Images& from) { add_field_option<&Images::allow_missing>(verb, from); }
inline void add_label_options(CLI::App& verb, Images& from) {
  add_field_option<&Images::image_key>(verb, from);
  add_field_option<&Images::label_key>(verb, from);
  add_field_option<&Images::label_offset>(verb, from);
}

// Bad images of a data set.
inline void add_max_bad_option(CLI::App& verb, Images& from) {
  add_max_bad_option(verb, from.max_bad, "bad images to leave out; one more is an error");
}

inline constexpr int kFailed = 1;

// Lets a stopped run remove its unfinished files, and makes a full disk or a limit an error instead of a signal.
void catch_signals();
bool stopped() noexcept;

// The exit code of a verb. `done` is that of its result, which it has printed, or why it failed, which this prints: a
// line on stderr, with `json` also an object on stdout. kFailed if stdout could not be written, 128 + N after signal N.
int finish(std::string_view verb, const Result<int>& done, bool json);

// Calls work(thread, i) for each i below `count` on `threads` threads (0: all cores), and `show` on the caller's thread
// ten times a second. False: a signal stopped it before every call was begun.
bool run_all(int threads, std::size_t count, const std::function<void(std::size_t thread, std::size_t i)>& work,
             const std::function<void()>& show);
std::size_t worker_count(int threads);  // the threads of run_all()

// The JSON text of an object. Names of files and classes may be any bytes, strings of JSON are UTF-8: in a string that
// is none, each byte outside of a UTF-8 character becomes \xNN (two lower-case hexadecimal digits) and each backslash
// \\, and the object gets a member "escaped" that lists such strings as JSON Pointers (RFC 6901). An object whose
// strings are all UTF-8 has no such member, and its strings are as they are. `indent` as for dump(): -1 is one line.
std::string json_text(nlohmann::ordered_json object, int indent = -1);
// What json_text() makes of one string.
std::string escape_bytes(std::string_view text);

// Prints "WHAT left out:" and what they are, unless `count` is 0; `messages` may be of the first ones alone.
void print_left_out(std::string_view what, std::int64_t count, const std::vector<std::string>& messages);

enum class Paint { kGood, kBad, kBar };
// Coloured on a terminal, where NO_COLOR is not set.
std::string paint(Paint colour, std::string_view text);

// A file itself; of a directory its train-*, validation-*, val-*, test-*, *.tfrec* and *.record files, sorted, without
// those that are missing, of which `missing` is told. `unavailable`: there is none.
Result<std::vector<std::string>> record_files(const std::string& path, data::MissingData& missing);

}  // namespace xoe::tools

// Shared by the verbs of `xoe data`: signals, threads, colours, exit codes and lists of record files.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/command_line/parse/command_line.h"
#include "data/files/missing.h"
#include "xoe/status.h"

namespace xoe::tools {

inline constexpr int kFailed = 1;

// Lets a stopped run remove its unfinished files, and makes a full disk or a limit an error instead of a signal.
void catch_signals();
bool stopped() noexcept;

// Prints why a verb failed: a line on stderr, with `json` also an object on stdout. Returns the exit code.
int report_failure(std::string_view verb, const Error& error, bool json);
// The exit code of a verb that has printed its result: kFailed if stdout could not be written, 128 + N after signal N.
int exit_code(int code);

// Calls work(thread, i) for each i below `count` on `threads` threads (0: all cores), and `show` on the caller's thread
// ten times a second. False: a signal stopped it before every call was begun.
bool run_all(int threads, std::size_t count, const std::function<void(std::size_t thread, std::size_t i)>& work,
             const std::function<void()>& show);
std::size_t worker_count(int threads);  // the threads of run_all()

// Prints "WHAT left out:" and what they are, unless `count` is 0; `messages` may be of the first ones alone.
void print_left_out(std::string_view what, std::int64_t count, const std::vector<std::string>& messages);

enum class Paint { kGood, kBad, kBar };
// Coloured on a terminal, where NO_COLOR is not set.
std::string paint(Paint colour, std::string_view text);

// A file itself; of a directory its train-*, validation-*, val-*, test-*, *.tfrec* and *.record files, sorted, without
// those that are missing, of which `missing` is told. `unavailable`: there is none.
Result<std::vector<std::string>> record_files(const std::string& path, data::MissingData& missing);

}  // namespace xoe::tools

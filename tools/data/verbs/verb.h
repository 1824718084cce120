// What the verbs of `xoe data` have in common: signals, threads, colours, and how they end.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe::tools {

inline constexpr int kFailed = 1;
inline constexpr int kUsageError = 2;

// Lets a stopped run remove its half files, and a full disk or a limit be an error instead of an end.
void catch_signals();
bool stopped() noexcept;

// Says why a verb failed: a line on stderr, with `json` also an object on stdout. Returns the exit code.
int fail(std::string_view verb, const Error& error, bool json);
// Of a verb that has printed: fails when stdout could not take it. A stop by a signal is its number above 128.
int end(int code);

// Calls work(thread, i) for each i below `count`, on so many threads (0: all cores), and `show` on the caller's thread
// some times a second. False when a signal stopped it before all were begun.
bool run_all(int threads, std::size_t count, const std::function<void(std::size_t thread, std::size_t i)>& work,
             const std::function<void()>& show);
std::size_t threads_of(int wanted);  // as run_all() takes them

enum class Paint { kGood, kBad, kBar };
// Coloured on a terminal, where NO_COLOR is not set.
std::string paint(Paint colour, std::string_view text);

}  // namespace xoe::tools

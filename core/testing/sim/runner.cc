#include "core/testing/sim/runner.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>

#include "core/testing/sim/simulation.h"

namespace xoe::sim {
namespace {

using Clock = std::chrono::steady_clock;

struct CommandLine {
  std::uint64_t first = 1, last = 100;
  std::set<std::size_t> without;
  std::optional<double> seconds;
  int jobs = 0;
  bool story = false, shrink = true, help = false;
};

std::uint64_t number(std::string_view text, bool& good) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  good = good && read.ec == std::errc() && read.ptr == text.data() + text.size();
  return value;
}

bool parse(int argc, char** argv, CommandLine& words) {
  bool good = true;
  for (int i = 1; i < argc && good; ++i) {
    const std::string_view word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--help" || word == "-h") {
      words.help = true;
    } else if (word == "--story") {
      words.story = true;
    } else if (word == "--no-shrink") {
      words.shrink = false;
    } else if (word == "--seed" && more) {
      words.first = words.last = number(argv[++i], good);
    } else if (word == "--seeds" && more) {
      const std::string_view range = argv[++i];
      const auto colon = range.find(':');
      if (colon == std::string_view::npos) return false;
      words.first = number(range.substr(0, colon), good);
      words.last = number(range.substr(colon + 1), good);
    } else if (word == "--without" && more) {
      std::string_view list = argv[++i];
      while (!list.empty()) {
        const auto comma = list.find(',');
        words.without.insert(number(list.substr(0, comma), good));
        list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
      }
    } else if (word == "--seconds" && more) {
      words.seconds = std::atof(argv[++i]);
    } else if (word == "--jobs" && more) {
      words.jobs = static_cast<int>(number(argv[++i], good));
    } else {
      good = false;
    }
  }
  return good;
}

// A seed that is being simulated.
struct Run {
  std::uint64_t seed = 0;
  pid_t pid = -1;
  int pipe = -1;
  std::string answer;
  Clock::time_point began = {};
};

void put(std::string& to, std::string_view text) {
  to += std::to_string(text.size());
  to += ' ';
  to += text;
}

std::optional<std::string> take(std::string_view& from) {
  const auto space = from.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  bool good = true;
  const auto size = number(from.substr(0, space), good);
  if (!good || from.size() < space + 1 + size) return std::nullopt;
  std::string text(from.substr(space + 1, size));
  from.remove_prefix(space + 1 + size);
  return text;
}

Run begin(const Suite& suite, std::uint64_t seed, const std::set<std::size_t>& without) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    const Outcome outcome = suite.run(seed, without);
    std::string answer;
    put(answer, std::to_string(outcome.events));
    put(answer, outcome.story);
    for (const std::string& problem : outcome.problems) put(answer, problem);
    answer += "end";
    std::string_view left = answer;
    while (!left.empty()) {
      const auto count = ::write(ends[1], left.data(), left.size());
      if (count <= 0) ::_exit(1);
      left.remove_prefix(static_cast<std::size_t>(count));
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  return {.seed = seed, .pid = pid, .pipe = ends[0], .answer = {}, .began = Clock::now()};
}

bool hangs(const Suite& suite, const Run& run) {
  return std::chrono::duration<double>(Clock::now() - run.began).count() > suite.hangs;
}

// Once the process has closed its pipe, or has hung.
Outcome finish(Run& run, bool hung) {
  if (hung) ::kill(run.pid, SIGKILL);
  int status = 0;
  ::waitpid(run.pid, &status, 0);
  ::close(run.pipe);
  Outcome outcome;
  std::string_view left = run.answer;
  const auto events = take(left);
  const auto story = take(left);
  if (!events || !story || !left.ends_with("end")) {
    const std::string how = WIFSIGNALED(status) ? std::string("was killed by ") + ::strsignal(WTERMSIG(status))
                                                : "exited with " + std::to_string(WEXITSTATUS(status));
    outcome.problems.push_back(hung ? "the simulation makes no end: a thread runs for ever" : "the simulation " + how);
    return outcome;
  }
  outcome.events = std::stoul(*events);
  outcome.story = *story;
  while (const auto problem = take(left)) outcome.problems.push_back(*problem);
  return outcome;
}

Outcome run_one(const Suite& suite, std::uint64_t seed, const std::set<std::size_t>& without) {
  Run run = begin(suite, seed, without);
  char bytes[65536];
  while (true) {
    pollfd entry{.fd = run.pipe, .events = POLLIN, .revents = 0};
    if (hangs(suite, run)) return finish(run, true);
    if (::poll(&entry, 1, 1000) <= 0) continue;
    const auto count = ::read(run.pipe, bytes, sizeof bytes);
    if (count <= 0) return finish(run, false);
    run.answer.append(bytes, static_cast<std::size_t>(count));
  }
}

std::string list_of(const std::set<std::size_t>& without) {
  std::string text;
  for (const std::size_t one : without) text += (text.empty() ? "" : ",") + std::to_string(one);
  return text;
}

// The fewest events with which the seed still fails, event by event.
std::set<std::size_t> shrink(const Suite& suite, std::uint64_t seed, std::size_t events) {
  std::set<std::size_t> without;
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (std::size_t i = 0; i < events; ++i) {
      if (without.contains(i)) continue;
      auto tried = without;
      tried.insert(i);
      if (run_one(suite, seed, tried).problems.empty()) continue;
      without = tried;
      smaller = true;
    }
  }
  return without;
}

void report(const Suite& suite, std::uint64_t seed, const Outcome& outcome, bool shrinks) {
  std::printf("seed %llu:\n", static_cast<unsigned long long>(seed));
  for (const std::string& problem : outcome.problems) std::printf("  %s\n", problem.c_str());
  std::fflush(stdout);
  const auto without = shrinks ? shrink(suite, seed, outcome.events) : std::set<std::size_t>();
  const std::string left_out = without.empty() ? "" : " --without " + list_of(without);
  std::printf("  to see it: %s --seed %llu%s --story\n", suite.name.c_str(), static_cast<unsigned long long>(seed),
              left_out.c_str());
  std::fflush(stdout);
}

int run_seeds(const Suite& suite, const CommandLine& words) {
  const auto began = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  const auto jobs = words.jobs > 0 ? static_cast<std::size_t>(words.jobs)
                                   : std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
  std::vector<Run> runs;
  std::uint64_t next = words.first, done = 0, failed = 0;
  const auto wanted = [&] { return next <= words.last && (!words.seconds || spent() < *words.seconds); };
  while (wanted() || !runs.empty()) {
    while (wanted() && runs.size() < jobs) runs.push_back(begin(suite, next++, words.without));
    std::vector<pollfd> entries;
    for (const Run& run : runs) entries.push_back({.fd = run.pipe, .events = POLLIN, .revents = 0});
    ::poll(entries.data(), entries.size(), 1000);
    for (std::size_t i = runs.size(); i-- > 0;) {
      Run& run = runs[i];
      const bool hung = hangs(suite, run);
      if (entries[i].revents == 0 && !hung) continue;
      char bytes[65536];
      const auto count = hung ? 0 : ::read(run.pipe, bytes, sizeof bytes);
      if (count > 0) {
        run.answer.append(bytes, static_cast<std::size_t>(count));
        continue;
      }
      const Outcome outcome = finish(run, hung);
      ++done;
      if (!outcome.problems.empty()) {
        ++failed;
        report(suite, run.seed, outcome, words.shrink && failed <= 3);
      }
      runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  std::printf("%llu seeds from %llu on, %llu with problems, %.1f s\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(words.first), static_cast<unsigned long long>(failed), spent());
  return failed == 0 ? 0 : 1;
}

}  // namespace

int run_suite(int argc, char** argv, const Suite& suite) {
  fix_addresses(argv);
  CommandLine words;
  if (!parse(argc, argv, words)) {
    std::fprintf(stderr, "%s: a wrong word; see --help\n", suite.name.c_str());
    return 2;
  }
  if (words.help) {
    std::printf(
        "%s\n\n  --seeds FIRST:LAST  these (default 1:100)\n  --seconds S         begin none after so long\n"
        "  --jobs N            so many at once (default: one for each processor)\n  --no-shrink         leave failing "
        "seeds as they are\n  --seed N            this one\n  --without I,J       without these events of its "
        "schedule\n"
        "  --story             tell what happened\n",
        suite.describes.c_str());
    return 0;
  }
  if (words.first != words.last || !words.story) return run_seeds(suite, words);
  const Outcome outcome = run_one(suite, words.first, words.without);
  std::printf("%s", outcome.story.c_str());
  for (const std::string& problem : outcome.problems) std::printf("PROBLEM: %s\n", problem.c_str());
  return outcome.problems.empty() ? 0 : 1;
}

}  // namespace xoe::sim

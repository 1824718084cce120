#include "data/cli/verbs/verbs.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/command_line/terminal.h"
#include "data/files/idx.h"
#include "data/files/index_path.h"
#include "data/files/listing.h"
#include "data/threads.h"

namespace xoe::tools {
namespace {

constexpr auto kShowEvery = std::chrono::milliseconds(100);

volatile std::sig_atomic_t stop_signal = 0;
void on_signal(int signal) { stop_signal = signal; }

bool is_record_file_name(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kBeginnings = {"train-", "validation-", "val-", "test-"};
  if (data::is_index_path(name) || data::is_archive_name(name) || data::is_idx_name(name)) return false;
  return data::is_record_name(name) ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(), [name](auto begin) { return name.starts_with(begin); });
}

}  // namespace

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

bool stopped() noexcept { return stop_signal != 0; }

int finish(std::string_view verb, const Result<int>& done, bool json) {
  if (!done) {
    if (json) fmt::print("{}\n", json_text({{"error", done.error().to_string()}}));
    fmt::print(stderr, "xoe data {}: {}\n", verb, printable_utf8(done.error().message()));
  }
  const bool printed = std::fflush(stdout) == 0;
  if (stop_signal != 0) return 128 + stop_signal;
  if (!done) return done.error().code() == Code::kInvalidArgument ? kUsageError : kFailed;
  return *done == 0 && !printed ? kFailed : *done;
}

std::size_t worker_count(int wanted) { return static_cast<std::size_t>(data::thread_count(wanted)); }

bool run_all(int threads, std::size_t count, const std::function<void(std::size_t, std::size_t)>& work,
             const std::function<void()>& show) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t running = std::min(worker_count(threads), count);
  std::vector<std::jthread> workers;
  for (std::size_t thread = 0, all = running; thread < all; ++thread)
    workers.emplace_back([&, thread] {
      while (!stopped()) {
        const std::size_t i = next++;
        if (i >= count) break;
        work(thread, i);
      }
      const std::lock_guard lock(mutex);
      --running;
      changed.notify_one();
    });
  std::unique_lock lock(mutex);
  while (running > 0) {
    changed.wait_for(lock, kShowEvery, [&running] { return running == 0; });
    lock.unlock();
    show();
    lock.lock();
  }
  return next >= count;
}

void print_left_out(std::string_view what, std::int64_t count, const std::vector<std::string>& messages) {
  if (count == 0) return;
  fmt::print("{} left out{}\n", what, messages.empty() ? "" : ":");
  for (const std::string& message : messages) fmt::print("  {}\n", printable_utf8(message));
  if (const std::int64_t more = count - std::ssize(messages); more > 0 && !messages.empty())
    fmt::print("  ... and {} more\n", more);
}

std::string paint(Paint colour, std::string_view text) {
  static const bool coloured = command_line::colours_wanted(STDOUT_FILENO, Env::process());
  if (!coloured) return std::string(text);
  const int code = colour == Paint::kGood ? 32 : colour == Paint::kBad ? 31 : 36;
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

Result<std::vector<std::string>> record_files(const std::string& path, data::MissingData& missing) {
  if (!data::is_directory(path)) return std::vector{path};
  XOE_ASSIGN(data::Listing listing, data::list_directory(path));
  // A folder with the name of a record file is told of, too.
  listing.files.insert(listing.files.end(), listing.folders.begin(), listing.folders.end());
  std::vector<std::string> files;
  for (const std::string& name : listing.files)
    if (is_record_file_name(name) && !data::is_foreign_index(path + "/" + name)) files.push_back(path + "/" + name);
  std::sort(files.begin(), files.end());
  data::find_absent_shards(
      files, [](const std::string&) { return true; }, missing);
  (void)data::keep_files(files, 1, missing);
  if (files.empty() && missing.count() == 0)
    return failure(Code::kUnavailable, "{}: no train-*, validation-*, *.tfrecord, *.tfrec or *.record file", path);
  return files;
}

}  // namespace xoe::tools

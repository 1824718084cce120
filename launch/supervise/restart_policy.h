// How often failed ranks are restarted, and how soon.
#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace xoe::launch {

class RestartPolicy {
 public:
  static constexpr int kWrongUsage = 2;  // the exit code of a program whose command line is wrong
  // allowed: processes may be started again; of `restarts` failed ranks, and of further ones that come and go.
  RestartPolicy(int restarts, bool allowed) : left_(restarts), allowed_(allowed) {}

  int left() const noexcept { return left_; }
  // Whether another start may help: not where the program is not there, or cannot be executed, nor where it ends soon
  // with the exit code of a command line that is wrong. `status` is that of wait().
  static bool may_help(int status, std::chrono::nanoseconds ran) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return code != kCannotRun && code != kNoProgram && (code != kWrongUsage || ran >= kLongRun);
  }
  // Until a rank ends well: the others cannot form a group with a restarted one then.
  bool allowed() const noexcept { return allowed_; }
  // False: it was forbidden already.
  bool forbid() noexcept { return std::exchange(allowed_, false); }
  // How long to wait before a rank that failed after `ran` is restarted; nullopt: it is not. Ranks that fail again and
  // again right after their start would use up all restarts in a moment: each such pause is twice as long as the last.
  std::optional<std::chrono::nanoseconds> restart_after(std::chrono::nanoseconds ran) {
    if (left_ == 0 || !allowed_) return std::nullopt;
    --left_;
    if (ran >= kLongRun) {
      next_pause_ = kFirstPause;
      return std::chrono::nanoseconds(0);
    }
    return std::exchange(next_pause_, std::min<std::chrono::nanoseconds>(2 * next_pause_, kLongestPause));
  }

 private:
  static constexpr auto kLongRun = std::chrono::seconds(10);
  static constexpr auto kFirstPause = std::chrono::milliseconds(100);
  static constexpr auto kLongestPause = std::chrono::seconds(10);
  static constexpr int kCannotRun = 126;
  static constexpr int kNoProgram = 127;

  int left_;
  bool allowed_;
  std::chrono::nanoseconds next_pause_ = kFirstPause;
};

}  // namespace xoe::launch

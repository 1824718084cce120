// How often failed ranks are restarted, and how soon.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace xoe::launch {

class RestartPolicy {
 public:
  explicit RestartPolicy(int restarts) : left_(restarts) {}

  int left() const noexcept { return left_; }
  // How long to wait before a rank that failed after `ran` is restarted; nullopt: it is not. Ranks that fail again and
  // again right after their start would use up all restarts in a moment: each such pause is twice as long as the last.
  std::optional<std::chrono::nanoseconds> restart_after(std::chrono::nanoseconds ran) {
    if (left_ == 0) return std::nullopt;
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

  int left_;
  std::chrono::nanoseconds next_pause_ = kFirstPause;
};

}  // namespace xoe::launch

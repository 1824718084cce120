// When a wait for other ranks is reported, and when it ends as a timeout.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "core/base/process_activity.h"

namespace xoe {

struct WaitLimits {
  std::chrono::nanoseconds warning = std::chrono::seconds(10);  // the first one; 0: none
  std::chrono::nanoseconds limit = std::chrono::minutes(10);    // 0: none
  // The limit waits for those that are seen to compute.
  bool spares_computing = true;
};

// One wait. Each pause between warnings is twice as long as the one before.
class StallTimer {
 public:
  enum class Action : std::uint8_t { kNothing, kWarning, kLimit };

  // What the ranks that are waited for have used so far. They may be others than the last time.
  using Used = std::function<CpuUse()>;

  // Says what to do after a wait of `age`. used: called seldom.
  Action check(const WaitLimits& limits, std::chrono::nanoseconds age, const Used& used);
  // The age at which to check again.
  std::chrono::nanoseconds next(const WaitLimits& limits) const;

 private:
  bool limit_reached(const WaitLimits& limits, std::chrono::nanoseconds age, const Used& used);

  std::optional<std::chrono::nanoseconds> warned_at_;
  std::optional<std::chrono::nanoseconds> checked_at_;
  std::chrono::nanoseconds news_at_{0};  // of the last look that found news
  std::optional<CpuUse> last_;           // what it found
};

}  // namespace xoe

// The rows at the bottom of the terminal that say how each rank of a job goes on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/bootstrap/status_page.h"

namespace xoe::launch {

// What a rank has told, and when.
struct RankSample {
  std::chrono::steady_clock::time_point at = {};
  bootstrap::RankFacts facts = {};
};

class Panel {
 public:
  using Clock = std::chrono::steady_clock;
  struct Look {
    bool color = true;
    std::size_t width = 80;  // of the terminal
    std::size_t height = 24;
  };

  // `tags`: of each rank, before its row. `began`: of the job.
  Panel(std::vector<std::string> tags, Clock::time_point began);

  // When to observe() again.
  Clock::time_point next_draw() const noexcept { return next_draw_; }
  void observe(std::span<const RankSample> samples, Clock::time_point now);
  // The rank has ended; `how`: "ended", "exited with code 3".
  void ended(std::size_t rank, std::string how) { ranks_[rank].ended = std::move(how); }
  void restarted(std::size_t rank) { ranks_[rank].ended.clear(); }

  // At most a third of the terminal's rows; none before a rank has joined, and on a terminal that is too low.
  // last_lines: what each rank wrote last.
  std::vector<std::string> lines(std::span<const std::string> last_lines, const Look& look) const;

 private:
  struct Point {
    Clock::time_point at;
    std::uint64_t steps;
    std::uint64_t operations;
    std::chrono::nanoseconds peers;
    std::chrono::nanoseconds data;
  };
  struct Rank {
    std::string tag;
    std::string ended = {};
    bootstrap::RankFacts now = {};
    std::deque<Point> history = {};  // of the last minute
  };

  static std::string rate_of(const Rank& rank);
  static std::string wait_of(const Rank& rank);
  int waiting_for(int rank) const;
  std::string state_of(std::size_t rank) const;
  std::vector<std::size_t> chosen(std::size_t most) const;
  std::string header(const Look& look) const;

  std::vector<Rank> ranks_;
  Clock::time_point began_;
  Clock::time_point next_draw_;
  Clock::time_point seen_;
};

}  // namespace xoe::launch

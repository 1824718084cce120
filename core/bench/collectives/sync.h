// What the ranks of one engine share besides the engine: a barrier, the current plan, and their samples.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace xoe::bench {

inline constexpr int kMaxRanks = 64;
inline constexpr std::size_t kMaxSamples = 20000;

struct Plan {
  std::uint64_t bytes = 0;
  std::int32_t collective = 0;
  std::int32_t dtype = 0;
  std::int32_t rewritten = 0;
  double seconds = 0;
  std::uint64_t samples = 0;
  std::uint64_t calls_per_sample = 1;
};

// core/bench/engine/steps.h runs it.
struct StepPlan {
  enum class What : std::int32_t { kSteps, kIdle, kRecord };
  What what = What::kSteps;
  std::int32_t random = 0;
  double seconds = 0;
  std::array<char, 32> network = {};
};

// What a rank has used, over a figure.
struct Use {
  double cpu_seconds;
  double switches;  // of context, wanted and not
};

struct alignas(64) Flag {
  std::atomic<std::uint32_t> value;
};

// Lies in the mapped file; all zero at first.
struct SharedState {
  std::array<Flag, kMaxRanks> arrived;
  Flag command;  // counts commands; ranks sleep on it
  Flag quit;
  Flag failed;
  alignas(64) Plan plan;
  alignas(64) StepPlan steps;
  std::array<std::array<Use, 2>, kMaxRanks> uses;  // the second: with the timeline
  std::array<std::array<double, kMaxSamples>, kMaxRanks> samples;
};

class Sync {
 public:
  // nullptr data() when the file cannot be mapped.
  Sync(const char* path, int rank, int size);
  ~Sync();
  Sync(const Sync&) = delete;
  Sync& operator=(const Sync&) = delete;

  bool valid() const noexcept { return state_ != nullptr; }
  SharedState& state() const noexcept { return *state_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  // False when a rank failed.
  bool barrier() noexcept;
  void fail() noexcept { state_->failed.value.store(1); }

  // Rank 0 publishes state().plan, or the end; the others sleep until then. False: the end.
  void publish(bool quit) noexcept;
  bool wait_for_plan() noexcept;

  // Rank 0's value on all ranks.
  std::uint64_t share(std::uint64_t value) noexcept;

 private:
  SharedState* state_ = nullptr;
  int rank_;
  int size_;
  bool crowded_;  // more ranks than cores
  std::uint32_t generation_ = 0;
  std::uint32_t commands_seen_ = 0;
};

}  // namespace xoe::bench

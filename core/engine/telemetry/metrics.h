// Counts what the engine does, for Prometheus.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/gpu_transport.h"
#include "core/engine/tuning/knobs.h"
#include "xoe/engine.h"

namespace xoe::engine {

// Any thread may call any member at any time; all but text() are lock-free.
class Metrics {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // Every sample has the label process_rank, and these.
  Metrics(int rank, int size, const Labels& labels = {});

  // A completed operation that carried `bytes` on this rank.
  void operation(OpKind kind, std::size_t bytes) noexcept;
  // A completed collective of so many tensors; more than one: they were fused.
  void batch(std::size_t tensors) noexcept;
  // One of them that was on GPU memory.
  void gpu_collective(GpuTransport transport) noexcept {
    gpu_collectives_[static_cast<std::size_t>(transport)].fetch_add(1, std::memory_order_relaxed);
  }
  // A training step that has ended.
  void step() noexcept { steps_.fetch_add(1, std::memory_order_relaxed); }
  // This rank waited for `rank`, the last to submit.
  void waited_for(int rank, std::chrono::nanoseconds time) noexcept;
  void error(Code code) noexcept;
  // Operations that are submitted and not completed.
  void queue_depth(std::size_t operations) noexcept { queue_depth_.store(operations, std::memory_order_relaxed); }
  // Tensors that are past the stall warning.
  void stalled(std::size_t tensors) noexcept { stalled_.store(tensors, std::memory_order_relaxed); }
  void knobs(const Knobs& knobs) noexcept { knobs_.store(knobs.encode(), std::memory_order_relaxed); }

  // Text format 0.0.4, without peers that were never waited for.
  std::string text() const;

 private:
  using Counter = std::atomic<std::uint64_t>;
  // Counters that are updated together share a cache line.
  struct alignas(64) OfKind {
    Counter operations = 0;
    Counter bytes = 0;
  };
  static constexpr std::size_t kKinds = static_cast<std::size_t>(OpKind::kJoin) + 1;
  static constexpr std::size_t kCodes = static_cast<std::size_t>(Code::kInternal) + 1;

  const std::string labels_;  // ready to print, without braces
  std::array<OfKind, kKinds> kinds_;
  alignas(64) Counter batches_ = 0;
  Counter fused_tensors_ = 0;
  std::array<Counter, 2> gpu_collectives_ = {};  // by transport
  Counter steps_ = 0;
  Counter queue_depth_ = 0;
  Counter stalled_ = 0;
  std::atomic<std::uint16_t> knobs_;
  alignas(64) std::vector<Counter> waited_ns_;  // by rank
  std::array<Counter, kCodes> errors_ = {};
};

}  // namespace xoe::engine

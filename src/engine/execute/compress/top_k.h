// An allreduce of the largest values only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/execute/compress/codec.h"

namespace xoe::engine {

// Finds the same values on every run: the `count` largest magnitudes, of equal ones those that come first. NaN is
// larger than infinity. Scratch memory is kept between calls.
class TopSelector {
 public:
  // Indices in rising order. REQUIRES: 1 <= count <= values.size() <= 2^32.
  std::span<const std::uint32_t> select(std::span<const float> values, std::size_t count);

 private:
  std::vector<std::uint64_t> candidates_;
  std::vector<std::uint32_t> indices_;
};

// Each rank sends the k = max(1, ratio * n) largest of its values, with their indices; all add them up in rank order.
// What was not sent stays for the next step. Aji & Heafield, "Sparse Communication for Distributed Gradient Descent",
// 2017; Lin et al., "Deep Gradient Compression", 2018 (whose momentum correction and warm-up are the optimizer's).
// 8 k bytes to each peer, so it pays where ratio * (ranks - 1) is well below 1. All other values of the sum are 0: its
// error in one step has no bound but the values themselves. `unsupported`: more than 2^32 values.
class TopK final : public Codec {
 public:
  // REQUIRES: 0 < ratio <= 1. Without error feedback what is not sent is lost.
  explicit TopK(double ratio, bool error_feedback = true) : ratio_(ratio), error_feedback_(error_feedback) {}

  Task allreduce(Communicator& comm, std::span<float> values) override;

  std::span<const float> residual() const noexcept { return residual_; }

 private:
  struct Entry {
    std::uint32_t index;
    float value;
  };

  void collect(std::span<float> values, std::span<Entry> own);

  double ratio_;
  bool error_feedback_;
  TopSelector selector_;
  std::vector<Entry> entries_;  // of all ranks, in rank order
  std::vector<std::size_t> byte_counts_;
  std::vector<float> residual_;
};

}  // namespace xoe::engine

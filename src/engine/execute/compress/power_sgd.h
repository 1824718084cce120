// An allreduce of low-rank factors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/execute/compress/codec.h"

namespace xoe::engine {

// Vogels et al., "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization", 2019: one step of
// subspace iteration for each allreduce. M [rows, cols], rows being the first dimension, becomes P Q^T with P
// [rows, rank] and Q [cols, rank]: P = M Q is averaged and orthonormalised, Q = M^T P summed; the next step starts from
// this Q. What a rank's own factors dropped stays for its next step.
// 8 rank (rows + cols) bytes on the wire, where float32 needs 8 rows cols. The error of one step is what of the sum
// lies outside of the subspace.
class PowerSgd final : public Codec {
 public:
  // True for two or more dimensions of which the factors have at most half as many values.
  static bool pays(std::span<const std::int64_t> shape, int rank) noexcept;

  // REQUIRES: pays(shape, rank).
  PowerSgd(std::span<const std::int64_t> shape, int rank);

  // `invalid_argument`: values.size() is not that of the shape.
  Task allreduce(Communicator& comm, std::span<float> values) override;

  std::span<const float> residual() const noexcept { return residual_; }

 private:
  void refresh_columns();

  std::size_t rows_;
  std::size_t cols_;
  std::size_t rank_;
  std::uint64_t draws_ = 0;  // of random columns so far, the same on all ranks
  // Factors lie column by column.
  std::vector<float> p_;         // [rank][rows]
  std::vector<float> q_;         // [rank][cols], summed over the ranks
  std::vector<float> own_q_;     // this rank's summand
  std::vector<float> residual_;  // [rows][cols]
};

}  // namespace xoe::engine

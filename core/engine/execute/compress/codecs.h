// The codecs: casts to 16 and 8 bits, the largest values, low-rank factors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/engine/execute/compress/codec.h"
#include "xoe/tensor.h"

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

struct TopKEntry {
  std::uint32_t index;
  float value;
};

// Memory that a codec needs only while its allreduce runs. Codecs that run one after the other share it.
struct CodecScratch {
  std::vector<std::uint16_t> wire16;  // Cast
  std::vector<std::byte> wire;        // Float8: all shards, encoded: first of this rank's values, then of the sums
  std::vector<std::byte> received;    // and the own shard of each rank
  std::vector<float> sum;
  TopSelector selector;            // TopK
  std::vector<TopKEntry> entries;  // of all ranks, in rank order
  std::vector<float> p;            // PowerSgd: [rank][rows]
  std::vector<float> own_q;        // this rank's summand
};

inline std::shared_ptr<CodecScratch> own_scratch() { return std::make_shared<CodecScratch>(); }

// Sends float16 or bfloat16; the communicator adds in float32 and rounds once. 4 bytes a value on the wire, where
// float32 needs 8. Error: half a unit in the last place of each rank's value (2^-11 of it in float16, 2^-8 in
// bfloat16), and of the sum. Above 65504 float16 becomes infinity, also the sum. With error feedback a rank's own
// rounding is made up for in its next values; the sum's rounding is not.
class Cast final : public Codec {
 public:
  // REQUIRES: `wire` is kFloat16 or kBfloat16.
  Cast(DType wire, bool error_feedback, std::shared_ptr<CodecScratch> scratch = own_scratch())
      : wire_type_(wire), error_feedback_(error_feedback), scratch_(std::move(scratch)) {}

  Task allreduce(Communicator& comm, std::span<float> values) override;

  std::span<const float> residual() const noexcept { return residual_; }

 private:
  DType wire_type_;
  bool error_feedback_;
  std::shared_ptr<CodecScratch> scratch_;
  std::vector<float> residual_;
};

// Every value travels as one e4m3 code twice: an alltoall brings each rank all encodings of its shard (whole blocks of
// e4m3.h), the rank adds them in float32 in rank order and encodes the sum, an allgather brings it to all. 2.03 bytes a
// value on the wire, where float32 needs 8.
// Error: each rank's value and the sum round once each, by at most 1/16 of their magnitude, or 2^-17 of the largest in
// the block where that is more.
// With error feedback both roundings are made up for in the next step: a rank keeps what its own encoding dropped,
// and the owner of a shard what the sum's encoding dropped (Tang et al., "DoubleSqueeze", 2019).
class Float8 final : public Codec {
 public:
  explicit Float8(bool error_feedback, std::shared_ptr<CodecScratch> scratch = own_scratch())
      : error_feedback_(error_feedback), scratch_(std::move(scratch)) {}

  Task allreduce(Communicator& comm, std::span<float> values) override;

  std::span<const float> residual() const noexcept { return residual_; }
  std::span<const float> shard_residual() const noexcept { return shard_residual_; }

 private:
  // Cuts `count` values into shards.
  void plan(std::size_t count, int rank, int size);
  void encode_shards(std::span<float> values);
  void sum_shard();

  bool error_feedback_;
  std::size_t rank_ = 0;
  std::vector<std::size_t> starts_;       // first value of each rank's shard, and the end
  std::vector<std::size_t> bytes_;        // of each rank's shard, encoded
  std::vector<std::size_t> byte_starts_;  // of each rank's shard on the wire
  std::vector<std::size_t> own_bytes_;    // of the own shard, once for each rank
  std::shared_ptr<CodecScratch> scratch_;
  std::vector<float> residual_;
  std::vector<float> shard_residual_;
};

// Each rank sends the k = max(1, ratio * n) largest of its values, with their indices; all add them up in rank order.
// What was not sent stays for the next step. Aji & Heafield, "Sparse Communication for Distributed Gradient Descent",
// 2017; Lin et al., "Deep Gradient Compression", 2018 (whose momentum correction and warm-up are the optimizer's).
// 8 k bytes to each peer, so it pays where ratio * (ranks - 1) is well below 1. All other values of the sum are 0: its
// error in one step has no bound but the values themselves. `unsupported`: more than 2^32 values.
class TopK final : public Codec {
 public:
  // REQUIRES: 0 < ratio <= 1. Without error feedback what is not sent is lost.
  explicit TopK(double ratio, bool error_feedback = true, std::shared_ptr<CodecScratch> scratch = own_scratch())
      : ratio_(ratio), error_feedback_(error_feedback), scratch_(std::move(scratch)) {}

  Task allreduce(Communicator& comm, std::span<float> values) override;

  std::span<const float> residual() const noexcept { return residual_; }

 private:
  void collect(std::span<float> values, std::span<TopKEntry> own);

  double ratio_;
  bool error_feedback_;
  std::shared_ptr<CodecScratch> scratch_;
  std::vector<std::size_t> byte_counts_;
  std::vector<float> residual_;
};

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
  PowerSgd(std::span<const std::int64_t> shape, int rank, std::shared_ptr<CodecScratch> scratch = own_scratch());

  // `invalid_argument`: values.size() is not that of the shape.
  Task allreduce(Communicator& comm, std::span<float> values) override;

  std::span<const float> residual() const noexcept { return residual_; }

 private:
  void refresh_columns();

  std::size_t rows_;
  std::size_t cols_;
  std::size_t rank_;
  std::uint64_t draws_ = 0;  // of random columns so far, the same on all ranks
  std::shared_ptr<CodecScratch> scratch_;
  // Factors lie column by column.
  std::vector<float> q_;         // [rank][cols], summed over the ranks
  std::vector<float> residual_;  // [rows][cols]
};

}  // namespace xoe::engine

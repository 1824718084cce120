// An allreduce in 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/execute/compress/codec.h"

namespace xoe::engine {

// Every value travels as one e4m3 code twice: an alltoall brings each rank all encodings of its shard (whole blocks of
// e4m3.h), the rank adds them in float32 in rank order and encodes the sum, an allgather brings it to all. 2.03 bytes a
// value on the wire, where float32 needs 8.
// Error: each rank's value and the sum round once each, by at most 1/16 of their magnitude, or 2^-17 of the largest in
// the block where that is more.
// With error feedback both roundings are made up for in the next step: a rank keeps what its own encoding dropped,
// and the owner of a shard what the sum's encoding dropped (Tang et al., "DoubleSqueeze", 2019).
class Float8 final : public Codec {
 public:
  explicit Float8(bool error_feedback) : error_feedback_(error_feedback) {}

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
  std::vector<std::size_t> byte_starts_;  // of each rank's shard in wire_
  std::vector<std::size_t> own_bytes_;    // of the own shard, once for each rank
  std::vector<std::byte> wire_;           // all shards, encoded: first of this rank's values, then of the sums
  std::vector<std::byte> received_;       // the own shard of each rank
  std::vector<float> sum_;
  std::vector<float> residual_;
  std::vector<float> shard_residual_;
};

}  // namespace xoe::engine

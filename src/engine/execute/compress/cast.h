// An allreduce in 16 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/execute/compress/codec.h"

namespace xoe::engine {

// Sends float16 or bfloat16; the communicator adds in float32 and rounds once. 4 bytes a value on the wire, where
// float32 needs 8. Error: half a unit in the last place of each rank's value (2^-11 of it in float16, 2^-8 in
// bfloat16), and of the sum. Above 65504 float16 becomes infinity, also the sum. With error feedback a rank's own
// rounding is made up for in its next values; the sum's rounding is not.
class Cast final : public Codec {
 public:
  // REQUIRES: `wire` is kFloat16 or kBfloat16.
  Cast(DType wire, bool error_feedback) : wire_type_(wire), error_feedback_(error_feedback) {}

  Task allreduce(Communicator& comm, std::span<float> values) override;

  std::span<const float> residual() const noexcept { return residual_; }

 private:
  DType wire_type_;
  bool error_feedback_;
  std::vector<std::uint16_t> wire_;
  std::vector<float> residual_;
};

}  // namespace xoe::engine

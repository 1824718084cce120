// Makes the codec that a compression asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/engine/execute/compress/codec.h"
#include "xoe/engine.h"
#include "xoe/status.h"

namespace xoe::engine {

struct CodecScratch;  // codecs.h

// A codec for one tensor of this shape. kNone, and kPowerSgd where low rank does not pay (fewer than two dimensions, or
// factors of more than half the values), give an exact allreduce in float32.
// `invalid_argument`: a ratio outside of (0, 1], a rank below 1, a negative dimension; `resource_exhausted`.
// scratch: shared by codecs that run one after the other; null: the codec has its own.
Result<std::unique_ptr<Codec>> make_codec(const CompressionOptions& options, std::span<const std::int64_t> shape,
                                          std::shared_ptr<CodecScratch> scratch = nullptr);
// Bytes of state that a codec keeps for a tensor of `count` values, nearly; the same on all ranks.
std::size_t codec_state_bytes(const CompressionOptions& options, std::size_t count) noexcept;

}  // namespace xoe::engine

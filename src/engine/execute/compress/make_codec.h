// Makes the codec for compression options.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/execute/compress/codec.h"
#include "xoe/engine.h"
#include "xoe/status.h"

namespace xoe::engine {

// A codec for one tensor of this shape. kNone, and kPowerSgd where low rank does not pay (fewer than two dimensions, or
// factors of more than half the values), give an exact allreduce in float32.
// `invalid_argument`: a ratio outside of (0, 1], a rank below 1, a negative dimension; `resource_exhausted`.
Result<std::unique_ptr<Codec>> make_codec(const CompressionOptions& options, std::span<const std::int64_t> shape);

}  // namespace xoe::engine

// Sets of ids in messages between hosts (docs/formats/negotiation.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace xoe::engine {

// ids: ascending, without duplicates. Written as runs or as a bitmap, whichever is shorter.
void write_ids(ByteWriter& out, std::span<const std::uint32_t> ids);
// Empty, and `in` has failed, unless all ids are below `limit`.
std::vector<std::uint32_t> read_ids(ByteReader& in, std::uint32_t limit);

}  // namespace xoe::engine

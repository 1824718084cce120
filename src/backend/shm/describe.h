// An operation's arguments as ranks compare and show them.
#pragma once

#include <cstdint>
#include <string>

#include "backend/shm/layout.h"

namespace xoe::shm {

void describe(Description& description, const Collective& collective) noexcept;
// Equal for operations that may run together.
std::uint32_t signature(const Description& description) noexcept;
// "allreduce(float32, sum, 1000 elements) 'conv1.weight'"
std::string to_text(const Description& description);

}  // namespace xoe::shm

// An operation's arguments as ranks compare and show them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backend/shm/layout.h"

namespace xoe::shm {

// Adds what must agree of a table of counts.
void describe_counts(Description& description, std::span<const std::size_t> counts) noexcept;
// Equal for operations that may run together.
std::uint32_t signature(const Description& description) noexcept;
// "allreduce(float32, sum, 1000 elements)"
std::string to_text(const Description& description);

}  // namespace xoe::shm

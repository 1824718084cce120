// The arguments of a collective as ranks compare them, and show them when they differ.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/backend/collective.h"

namespace xoe {

// Plain bytes, for shared memory and messages: without padding, which would carry what was in this process's memory.
struct alignas(64) Fingerprint {
  CollectiveKind kind;
  DType dtype;
  ReduceOp op;
  std::uint8_t unused;
  std::int32_t root;
  std::uint64_t count;
  std::uint64_t counts_hash;
  std::uint64_t first_counts[4];
  std::uint64_t name_hash;
  std::uint32_t name_length;  // of the part that `name` holds
  char name[60];
};
static_assert(sizeof(Fingerprint) == 128 && std::has_unique_object_representations_v<Fingerprint>);

void fill(Fingerprint& fingerprint, const Collective& collective) noexcept;
// Equal for collectives that may run together.
std::uint32_t digest(const Fingerprint& fingerprint) noexcept;
// "allreduce(float32, sum, 1000 elements) 'conv1.weight'"; of any bytes.
std::string to_string(const Fingerprint& fingerprint);

}  // namespace xoe

// How the words of the readiness table are packed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/negotiate/readiness_table.h"

namespace xoe::engine {

// Entry::state.
constexpr std::uint32_t arrived(std::uint64_t state) { return static_cast<std::uint32_t>(state & 0xffff); }
constexpr std::uint32_t generation(std::uint64_t state) { return static_cast<std::uint32_t>(state >> 16 & 0xffffff); }
constexpr std::uint32_t version(std::uint64_t state) { return static_cast<std::uint32_t>(state >> 40); }
constexpr std::uint64_t make_state(std::uint32_t v, std::uint32_t g, std::uint32_t count) {
  return std::uint64_t{v & 0xffffff} << 40 | std::uint64_t{g & 0xffffff} << 16 | count;
}
// What RankSubmission::generation says of an arrival: never 0.
constexpr std::uint32_t mark(std::uint32_t g) { return (g & 0xffffff) + 1; }

constexpr std::size_t kErrorTexts = 64;

struct alignas(64) TableHeader {
  std::atomic<std::uint64_t> log_tail;
  alignas(64) std::atomic<std::uint64_t> ready_tail;
  alignas(64) std::atomic<std::uint32_t> lock;    // 1 + the rank that makes entries
  alignas(64) std::atomic<std::uint32_t> joined;  // ranks
  std::atomic<std::uint32_t> swept;               // of these, those that have completed what waited for them
  std::atomic<std::int32_t> last_joined;
  std::atomic<std::uint32_t> knobs;  // what the next seal carries
};

// The text of a mismatch between hosts.
struct alignas(64) ErrorText {
  std::atomic<std::uint32_t> sequence;  // odd while it is written
  std::atomic<std::uint32_t> line;      // entry << 8 | generation, + 1
  std::atomic<std::uint32_t> length;
  std::atomic<char> text[2036];
};

}  // namespace xoe::engine

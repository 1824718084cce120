#include "backend/shm/describe.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace xoe::shm {
namespace {

// The finaliser of splitmix64 (Steele et al., 2014).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr bool count_must_agree(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::kAllreduce || kind == CollectiveKind::kBroadcast;
}

}  // namespace

void describe_counts(Description& description, std::span<const std::size_t> counts) noexcept {
  description.count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  for (const std::size_t count : counts) description.counts_hash = mix(description.counts_hash + count + 1);
  std::copy_n(counts.begin(), std::min(counts.size(), std::size(description.first_counts)), description.first_counts);
}

std::uint32_t signature(const Description& description) noexcept {
  const auto small = static_cast<std::uint64_t>(description.kind) | static_cast<std::uint64_t>(description.dtype) << 8 |
                     static_cast<std::uint64_t>(description.op) << 16 |
                     static_cast<std::uint64_t>(static_cast<std::uint32_t>(description.root)) << 32;
  const std::uint64_t count = count_must_agree(description.kind) ? description.count : description.counts_hash;
  return static_cast<std::uint32_t>(mix(mix(small + 1) ^ count) >> 32);
}

std::string to_text(const Description& d) {
  std::string text = fmt::format("{}(", collective_name(d.kind));
  if (d.kind == CollectiveKind::kBarrier) return text + ")";
  text += dtype_name(d.dtype);
  if (d.kind == CollectiveKind::kAllreduce || d.kind == CollectiveKind::kReduceScatter)
    text += fmt::format(", {}", reduce_op_name(d.op));
  if (d.kind == CollectiveKind::kBroadcast) text += fmt::format(", root {}", d.root);
  text += fmt::format(", {} element{}", d.count, d.count == 1 ? "" : "s");
  if (d.counts_hash != 0)
    text += fmt::format(", counts {}...", fmt::join(std::begin(d.first_counts), std::end(d.first_counts), " "));
  return text + ")";
}

}  // namespace xoe::shm

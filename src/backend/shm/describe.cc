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

constexpr bool counts_must_agree(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::kAllgather || kind == CollectiveKind::kReduceScatter;
}

std::uint64_t hash(std::string_view text) noexcept {
  std::uint64_t sum = text.size();
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), sizeof sum))) {
    std::uint64_t word = 0;
    text.copy(reinterpret_cast<char*>(&word), sizeof word);
    sum = mix(sum ^ word);
  }
  return sum;
}

}  // namespace

void describe(Description& d, const Collective& collective) noexcept {
  d.kind = collective.kind;
  d.dtype = collective.dtype;
  d.op = collective.op;
  d.root = collective.root;
  d.count = collective.in_count;
  d.counts_hash = d.name_hash = d.name_length = 0;
  if (counts_must_agree(collective.kind)) {
    const auto counts = collective.send_counts;
    d.count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    for (const std::size_t count : counts) d.counts_hash = mix(d.counts_hash + count + 1);
    std::fill(std::copy_n(counts.begin(), std::min(counts.size(), std::size(d.first_counts)), d.first_counts),
              std::end(d.first_counts), 0);
  }
  if (const auto name = collective.options.name; !name.empty()) {
    d.name_length = static_cast<std::uint32_t>(name.copy(d.name, sizeof d.name));
    d.name_hash = hash(name);
  }
}

std::uint32_t signature(const Description& description) noexcept {
  const auto small = static_cast<std::uint64_t>(description.kind) | static_cast<std::uint64_t>(description.dtype) << 8 |
                     static_cast<std::uint64_t>(description.op) << 16 |
                     static_cast<std::uint64_t>(static_cast<std::uint32_t>(description.root)) << 32;
  const std::uint64_t count = count_must_agree(description.kind) ? description.count : description.counts_hash;
  return static_cast<std::uint32_t>(mix(mix(small + 1) ^ count ^ description.name_hash) >> 32);
}

std::string to_text(const Description& d) {
  std::string text = fmt::format("{}(", collective_name(d.kind));
  const std::string name = d.name_length == 0 ? "" : fmt::format(" '{}'", std::string_view(d.name, d.name_length));
  if (d.kind == CollectiveKind::kBarrier) return text + ")" + name;
  text += dtype_name(d.dtype);
  if (d.kind == CollectiveKind::kAllreduce || d.kind == CollectiveKind::kReduceScatter)
    text += fmt::format(", {}", reduce_op_name(d.op));
  if (d.kind == CollectiveKind::kBroadcast) text += fmt::format(", root {}", d.root);
  text += fmt::format(", {} element{}", d.count, d.count == 1 ? "" : "s");
  if (d.counts_hash != 0)
    text += fmt::format(", counts {}...", fmt::join(std::begin(d.first_counts), std::end(d.first_counts), " "));
  return text + ")" + name;
}

}  // namespace xoe::shm

#include "core/backend/fingerprint.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/base/hash.h"
#include "core/base/text.h"

namespace xoe {
namespace {

constexpr bool count_must_agree(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::kAllreduce || kind == CollectiveKind::kBroadcast;
}

constexpr bool counts_must_agree(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::kAllgather || kind == CollectiveKind::kReduceScatter;
}

}  // namespace

void fill(Fingerprint& d, const Collective& collective) noexcept {
  d.kind = collective.kind;
  d.dtype = collective.dtype;
  d.op = collective.op;
  d.unused = 0;
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
    d.name_hash = hash_text(name);
  }
}

std::uint32_t digest(const Fingerprint& fingerprint) noexcept {
  const auto small = static_cast<std::uint64_t>(fingerprint.kind) | static_cast<std::uint64_t>(fingerprint.dtype) << 8 |
                     static_cast<std::uint64_t>(fingerprint.op) << 16 |
                     static_cast<std::uint64_t>(static_cast<std::uint32_t>(fingerprint.root)) << 32;
  const std::uint64_t count = count_must_agree(fingerprint.kind) ? fingerprint.count : fingerprint.counts_hash;
  return static_cast<std::uint32_t>(mix(mix(small + 1) ^ count ^ fingerprint.name_hash) >> 32);
}

std::string to_string(const Fingerprint& d) {
  std::string text = fmt::format("{}(", collective_name(d.kind));
  const std::size_t length = std::min<std::size_t>(d.name_length, sizeof d.name);
  const std::string name = length == 0 ? "" : fmt::format(" '{}'", std::string_view(d.name, length));
  if (d.kind == CollectiveKind::kBarrier) return text + ")" + name;
  text += dtype_name(d.dtype);
  if (d.kind == CollectiveKind::kAllreduce || d.kind == CollectiveKind::kReduceScatter)
    text += fmt::format(", {}", reduce_op_name(d.op));
  if (d.kind == CollectiveKind::kBroadcast) text += fmt::format(", root {}", d.root);
  text += ", " + counted(d.count, "element");
  if (d.counts_hash != 0)
    text += fmt::format(", counts {}...", fmt::join(std::begin(d.first_counts), std::end(d.first_counts), " "));
  return text + ")" + name;
}

}  // namespace xoe

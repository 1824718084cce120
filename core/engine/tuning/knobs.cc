#include "core/engine/tuning/knobs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace xoe::engine {
namespace {

constexpr int kMinFusion = 14;
constexpr int kMaxFusion = 28;
constexpr int kMinPack = 10;
constexpr int kMaxFlight = 3;

int exponent(std::size_t value) { return value == 0 ? 0 : static_cast<int>(std::bit_width(value)) - 1; }

int nearest_exponent(std::size_t value, int low, int high) {
  if (value <= (std::size_t{1} << low)) return low;
  return std::min(static_cast<int>(std::lround(std::log2(static_cast<double>(value)))), high);
}

Knobs at(int fusion, int pack, int flight) {
  return {fusion == 0 ? 0 : std::size_t{1} << fusion, pack == 0 ? 0 : std::size_t{1} << pack, 1 << flight};
}

std::vector<Knobs> make_grid() {
  std::vector<Knobs> grid;
  for (int flight = 0; flight <= kMaxFlight; ++flight) {
    grid.push_back(at(0, 0, flight));
    for (int fusion = kMinFusion; fusion <= kMaxFusion; ++fusion)
      for (int pack = kMinPack; pack <= fusion; ++pack) grid.push_back(at(fusion, pack, flight));
  }
  return grid;
}

}  // namespace

Knobs Knobs::nearest(std::size_t fusion_threshold, std::size_t pack_limit, int in_flight) {
  const int flight = nearest_exponent(static_cast<std::size_t>(std::max(in_flight, 1)), 0, kMaxFlight);
  if (fusion_threshold == 0 || pack_limit == 0) return at(0, 0, flight);
  const int fusion = nearest_exponent(fusion_threshold, kMinFusion, kMaxFusion);
  return at(fusion, nearest_exponent(pack_limit, kMinPack, fusion), flight);
}

const std::vector<Knobs>& Knobs::grid() {
  static const std::vector<Knobs> grid = make_grid();
  return grid;
}

// For each batch: without the logarithms of nearest().
bool Knobs::on_grid() const {
  const auto power = [](std::size_t value, int low, int high) {
    return std::has_single_bit(value) && exponent(value) >= low && exponent(value) <= high;
  };
  if (in_flight < 1 || !power(static_cast<std::size_t>(in_flight), 0, kMaxFlight)) return false;
  if (fusion_threshold == 0 || pack_limit == 0) return fusion_threshold == pack_limit;
  return power(fusion_threshold, kMinFusion, kMaxFusion) && power(pack_limit, kMinPack, exponent(fusion_threshold));
}

std::uint16_t Knobs::encode() const {
  return static_cast<std::uint16_t>(exponent(fusion_threshold) | exponent(pack_limit) << 5 |
                                    exponent(static_cast<std::size_t>(in_flight)) << 10);
}

std::optional<Knobs> Knobs::decode(std::uint16_t code) {
  if (code >> 12 != 0) return std::nullopt;
  const Knobs knobs = at(code & 31, code >> 5 & 31, code >> 10);
  return knobs.on_grid() ? std::optional(knobs) : std::nullopt;
}

int distance(const Knobs& a, const Knobs& b) {
  constexpr int kFar = 8;
  const int flight =
      std::abs(exponent(static_cast<std::size_t>(a.in_flight)) - exponent(static_cast<std::size_t>(b.in_flight)));
  if ((a.fusion_threshold == 0) != (b.fusion_threshold == 0)) return kFar;
  return std::max({std::abs(exponent(a.fusion_threshold) - exponent(b.fusion_threshold)),
                   std::abs(exponent(a.pack_limit) - exponent(b.pack_limit)), flight});
}

void SizeHistogram::add(std::size_t bytes, std::size_t tensors) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(exponent(bytes / tensors))];
  bucket.tensors += static_cast<double>(tensors);
  bucket.bytes += static_cast<double>(bytes);
}

double predicted_seconds(const Knobs& knobs, const SizeHistogram& tensors, const Speeds& speeds) {
  double alone = 0;
  double packed = 0;
  double packed_bytes = 0;
  double bytes = 0;
  for (const auto& bucket : tensors.buckets()) {
    if (bucket.tensors == 0) continue;
    bytes += bucket.bytes;
    if (bucket.bytes / bucket.tensors <= static_cast<double>(knobs.pack_limit)) {
      packed += bucket.tensors;
      packed_bytes += bucket.bytes;
    } else {
      alone += bucket.tensors;
    }
  }
  const auto threshold = static_cast<double>(knobs.fusion_threshold);
  const double batches = threshold == 0 ? packed : std::min(packed, std::ceil(packed_bytes / threshold + 1e-9));
  const double collectives = std::max(alone + batches, 1.0);
  const double abreast = std::min<double>(knobs.in_flight, collectives);
  // Starts of collectives partly overlap; the last unpacking overlaps with nothing.
  const double latency = collectives * speeds.latency_ns * 1e-9 * (0.4 + 0.6 / abreast);
  const double copies = 2 * packed_bytes + std::min(packed_bytes, threshold);
  const double seconds = latency + bytes / speeds.reduce_bytes_per_second + copies / speeds.copy_bytes_per_second;
  // Of equal ones, the one with fewer collectives under way.
  return seconds * (1 + 0.005 * knobs.in_flight);
}

}  // namespace xoe::engine

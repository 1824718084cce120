// What the tuner may turn, on a grid of powers of two, and what a setting is expected to cost.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace xoe::engine {

// As in EngineOptions. On the grid: fusion_threshold is 16 KiB to 256 MiB, pack_limit 1 KiB to fusion_threshold,
// in_flight 1, 2, 4 or 8; or both sizes are 0: nothing is fused.
struct Knobs {
  std::size_t fusion_threshold = std::size_t{8} << 20;
  std::size_t pack_limit = std::size_t{1} << 20;
  int in_flight = 2;

  // The place on the grid that is nearest.
  static Knobs nearest(std::size_t fusion_threshold, std::size_t pack_limit, int in_flight);
  static const std::vector<Knobs>& grid();

  bool on_grid() const;
  // What ranks send to each other. REQUIRES: on_grid().
  std::uint16_t encode() const;
  // nullopt: not made by encode().
  static std::optional<Knobs> decode(std::uint16_t code);

  bool operator==(const Knobs&) const = default;
};

// Steps on the grid from one to the other, along the axis where they are farthest apart; from fused to not fused is
// far.
int distance(const Knobs& a, const Knobs& b);

// How many tensors of which size a step has.
class SizeHistogram {
 public:
  // REQUIRES: tensors > 0.
  void add(std::size_t bytes, std::size_t tensors = 1);
  void clear() { *this = SizeHistogram(); }

  struct Bucket {
    double tensors = 0;
    double bytes = 0;
  };
  const std::array<Bucket, 64>& buckets() const noexcept { return buckets_; }  // by the size's power of two

 private:
  std::array<Bucket, 64> buckets_ = {};
};

// Measured when the engine starts.
struct Speeds {
  double latency_ns = 20e3;              // of a collective that carries next to nothing
  double reduce_bytes_per_second = 5e9;  // of an allreduce of megabytes
  double copy_bytes_per_second = 10e9;   // of packing or unpacking
};

// Seconds that these tensors take. Comparable with each other rather than with a clock: of use to rank settings.
double predicted_seconds(const Knobs& knobs, const SizeHistogram& tensors, const Speeds& speeds);

}  // namespace xoe::engine

// The parameters that are tuned, on a grid of powers of two, and the predicted cost of a setting.
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

  // The nearest point of the grid.
  static Knobs nearest(std::size_t fusion_threshold, std::size_t pack_limit, int in_flight);
  static const std::vector<Knobs>& grid();

  bool on_grid() const;
  // The form that ranks exchange. REQUIRES: on_grid().
  std::uint16_t encode() const;
  // nullopt: the number is not from encode().
  static std::optional<Knobs> decode(std::uint16_t code);

  bool operator==(const Knobs&) const = default;
};

// The distance on the grid: the largest of the axes. Fused and not fused are far apart.
int distance(const Knobs& a, const Knobs& b);

// How many tensors of each size a step has.
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
  double latency_ns = 20e3;              // of a tiny collective
  double reduce_bytes_per_second = 5e9;  // of an allreduce of megabytes
  double copy_bytes_per_second = 10e9;   // of packing or unpacking
};

// Predicted seconds for these tensors: good for ranking settings, not as an estimate of real time.
double predicted_seconds(const Knobs& knobs, const SizeHistogram& tensors, const Speeds& speeds);

}  // namespace xoe::engine

// The two samples around each output pixel: bilinear between pixel centres, without antialiasing when the image
// shrinks.
#pragma once

#include <cstdint>
#include <vector>

namespace xoe::data {

// One direction of one plane, in its samples. Output i is centred at start + (i + 0.5) * extent / outputs.
struct Axis {
  double start = 0;
  double extent = 0;
  int outputs = 0;
  double low = 0;  // positions are clamped to [low, high]
  double high = 0;
  bool mirrored = false;  // outputs count from the other end
};

// Positions as fixed-point numbers with 32 fractional bits: one addition each, and the same on every machine. 2^31
// samples fit.
class Positions {
 public:
  explicit Positions(const Axis& axis) noexcept;

  std::int64_t operator[](int output) const noexcept {
    const std::int64_t at = first_ + output * step_;
    return at < low_ ? low_ : at > high_ ? high_ : at;
  }
  static int sample(std::int64_t position) noexcept { return static_cast<int>(position >> 32); }
  // The fraction of the way to the next sample, in units of 2^-32.
  static std::uint32_t fraction(std::int64_t position) noexcept { return static_cast<std::uint32_t>(position); }

 private:
  std::int64_t first_;
  std::int64_t step_;
  std::int64_t low_;
  std::int64_t high_;
};

struct RowTap {
  std::uint32_t first = 0;   // index into RowPlan::rows
  std::uint32_t second = 0;  // first or the one behind it
  float weight = 0;          // of the second
};

// The rows of a plane that are needed, and the taps of each output row.
struct RowPlan {
  std::vector<int> rows;     // ascending
  std::vector<RowTap> taps;  // for each output row

  void make(const Axis& axis);
};

}  // namespace xoe::data

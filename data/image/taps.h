// Which samples each output pixel is made of, and their weights: the two around it (Positions), or as many as a filter
// reaches (FilterTaps).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/image/crop.h"

namespace xoe::data {

// One direction of one plane, in its samples, for bilinear interpolation without antialiasing. Output i is centred at
// start + (i + 0.5) * extent / outputs.
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

// One direction of one plane, in its samples: output i is centred at base + (skipped + i + 0.5) * scale, counted from
// the left edge of sample 0.
struct FilterAxis {
  double base = 0;
  double scale = 1;  // samples for one output
  double blur = 0;  // in samples: what enlarging them to pixels first would reach; antialiasing reaches farther by that
  int skipped = 0;
  int outputs = 0;
  int begin = 0;  // samples that may be read
  int end = 0;
};

// Of each output the first sample and the weights of so many; weights sum up to 1. Keeps its memory.
class FilterTaps {
 public:
  void make(const FilterAxis& axis, const Resampling& resampling);

  std::size_t outputs() const noexcept { return first_.size(); }
  int most() const noexcept { return most_; }  // of an output
  int first(std::size_t output) const noexcept { return first_[output]; }
  std::span<const float> weights(std::size_t output) const noexcept {
    return {weights_.data() + output * stride_, static_cast<std::size_t>(count_[output])};
  }

 private:
  template <class Weight>
  void fill(const FilterAxis& axis, bool antialias, double support, const Weight& weight);

  std::size_t stride_ = 0;
  int most_ = 0;
  std::vector<int> first_;
  std::vector<int> count_;
  std::vector<float> weights_;
};

struct RowTaps {
  std::uint32_t first = 0;    // index into RowPlan::rows, of
  std::uint32_t count = 0;    // so many
  std::uint32_t weights = 0;  // index into RowPlan::weights

  std::uint32_t end() const noexcept { return first + count; }
};

// The rows of a plane that are needed, and the taps of each output row.
struct RowPlan {
  std::vector<int> rows;      // ascending
  std::vector<RowTaps> taps;  // for each output row
  std::vector<float> weights;
  std::size_t most = 1;  // rows of an output

  void make(const Axis& axis);
  // `first` is the number of sample 0.
  void make(const FilterTaps& filter, int first);

 private:
  void clear();
  void add(std::uint32_t first, std::span<const float> row_weights);
};

}  // namespace xoe::data

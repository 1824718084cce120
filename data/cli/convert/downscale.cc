#include "data/cli/convert/downscale.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace xoe::data {
namespace {

// The source pixels of one result, and their weights, whose sum is 1.
struct PixelTaps {
  int first = 0;
  std::vector<float> weights;
};

std::vector<PixelTaps> make_taps(int from, int to) {
  const double scale = static_cast<double>(from) / to;
  std::vector<PixelTaps> all(static_cast<std::size_t>(to));
  for (int i = 0; i < to; ++i) {
    PixelTaps& taps = all[static_cast<std::size_t>(i)];
    const double centre = (i + 0.5) * scale;
    taps.first = std::max(0, static_cast<int>(std::lround(centre - scale)));
    const int end = std::min(from, static_cast<int>(std::lround(centre + scale)));
    double sum = 0;
    for (int k = taps.first; k < end; ++k) sum += std::max(0.0, 1 - std::abs(k + 0.5 - centre) / scale);
    for (int k = taps.first; k < end; ++k)
      taps.weights.push_back(static_cast<float>(std::max(0.0, 1 - std::abs(k + 0.5 - centre) / scale) / sum));
  }
  return all;
}

void downscale_row(const std::uint8_t* from, const std::vector<PixelTaps>& columns, float* to) {
  for (const PixelTaps& taps : columns) {
    float sum[3] = {};
    const std::uint8_t* pixel = from + 3 * static_cast<std::size_t>(taps.first);
    for (const float weight : taps.weights)
      for (float& channel : sum) channel += weight * static_cast<float>(*pixel++);
    to = std::copy_n(sum, 3, to);
  }
}

}  // namespace

void downscale(const Image& from, int width, int height, Image& to) {
  const auto columns = make_taps(from.width(), width);
  const auto rows = make_taps(from.height(), height);
  const std::size_t stride = std::size_t{3} * static_cast<std::size_t>(width);
  to.resize(width, height);
  // As many rows as the longest list of taps reaches: a source row is downscaled once and kept while it is needed.
  std::size_t most = 1;
  for (const PixelTaps& taps : rows) most = std::max(most, taps.weights.size());
  std::vector<float> ring(most * stride);
  const auto kept = [&](int row) { return ring.data() + static_cast<std::size_t>(row) % most * stride; };
  std::vector<float> sum(stride);
  int ready = 0;
  for (int y = 0; y < height; ++y) {
    const PixelTaps& taps = rows[static_cast<std::size_t>(y)];
    const int end = taps.first + static_cast<int>(taps.weights.size());
    for (; ready < end; ++ready) downscale_row(from.row(ready), columns, kept(ready));
    std::fill(sum.begin(), sum.end(), 0.5F);
    for (int k = taps.first; k < end; ++k) {
      const float weight = taps.weights[static_cast<std::size_t>(k - taps.first)];
      const float* row = kept(k);
      for (std::size_t x = 0; x < stride; ++x) sum[x] += weight * row[x];
    }
    std::transform(sum.begin(), sum.end(), to.row(y),
                   [](float value) { return static_cast<std::uint8_t>(std::min(value, 255.0F)); });
  }
}

}  // namespace xoe::data

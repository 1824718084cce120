#include "data/cli/phantom/field.h"

#include <cmath>
#include <cstddef>

namespace xoe::data::synth {
namespace {

const double kFirst = std::sqrt(1 - kCorrelation * kCorrelation);

// Along a line of `size` pixels, `stride` apart.
void colour_line(double* line, int size, std::size_t stride) {
  line[0] /= kFirst;
  for (int i = 1; i < size; ++i) line[i * stride] += kCorrelation * line[(i - 1) * stride];
}

void whiten_line(double* line, int size, std::size_t stride) {
  for (int i = size - 1; i > 0; --i) line[i * stride] -= kCorrelation * line[(i - 1) * stride];
  line[0] *= kFirst;
}

template <class Line>
void along_both(std::vector<double>& image, int size, const Line& line) {
  const auto side = static_cast<std::size_t>(size);
  for (std::size_t row = 0; row < side; ++row) line(image.data() + row * side, size, 1);
  for (std::size_t column = 0; column < side; ++column) line(image.data() + column, size, side);
}

}  // namespace

void colour(std::vector<double>& image, int size) { along_both(image, size, colour_line); }

void whiten(std::vector<double>& image, int size) { along_both(image, size, whiten_line); }

}  // namespace xoe::data::synth

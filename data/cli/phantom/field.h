// Correlated Gaussian noise that can be undone exactly.
//
// White noise e becomes y by y(i,j) = r y(i-1,j) + r y(i,j-1) - r² y(i-1,j-1) + e(i,j), with r = kCorrelation: an
// autoregression in either direction, so that neighbours correlate by r. Its inverse looks at four pixels. Both are
// linear, and images of independent standard normal numbers become stationary noise: the first row and column are
// scaled by 1 / sqrt(1 - r²).
#pragma once

#include <vector>

namespace xoe::data::synth {

inline constexpr double kCorrelation = 0.5;
// Of a pixel of coloured white noise of deviation 1.
inline constexpr double kColouredDeviation = 1 / (1 - kCorrelation * kCorrelation);

// Square images, row by row. REQUIRES: image.size() is size * size.
void colour(std::vector<double>& image, int size);
void whiten(std::vector<double>& image, int size);  // undoes colour()

}  // namespace xoe::data::synth

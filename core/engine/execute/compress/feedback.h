// Error feedback: values that a codec dropped are added to the next ones. Karimireddy et al., "Error Feedback Fixes
// SignSGD", 2019; Seide et al., "1-Bit Stochastic Gradient Descent", 2014.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace xoe::engine {

// One residual for each value, zero at first and whenever the number of values changes.
inline void fit_residual(std::vector<float>& residual, std::size_t count) {
  if (residual.size() != count) residual.assign(count, 0.0F);
}

// values[i] += residual[i]
inline void add_residual(std::span<float> values, std::span<const float> residual) noexcept {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += residual[i];
}

// A residual that is not finite would stay for ever: an overflow shows once, in the sum, and is forgotten.
inline float finite_or_zero(float x) noexcept { return x - x == 0.0F ? x : 0.0F; }

// sent[i] becomes the part of values[i] that was not sent.
inline void keep_rest(std::span<const float> values, std::span<float> sent) noexcept {
  for (std::size_t i = 0; i < values.size(); ++i) sent[i] = finite_or_zero(values[i] - sent[i]);
}

}  // namespace xoe::engine

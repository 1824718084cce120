#include "core/engine/execute/compress/codecs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "core/engine/execute/compress/feedback.h"

namespace xoe::engine {
namespace {

// --- products of a large row-major matrix with a few vectors

// Columns of a matrix at a time: their part of four factors stays in the first-level cache.
constexpr std::size_t kPanel = 1024;

// out[j] += sum over r < 4 of factors[r] * vectors[r][j]
void add_four(float* __restrict out, const std::array<const float*, 4>& vectors, const std::array<float, 4>& factors,
              std::size_t count) noexcept {
  const float *a = vectors[0], *b = vectors[1], *c = vectors[2], *d = vectors[3];
  const float fa = factors[0], fb = factors[1], fc = factors[2], fd = factors[3];
  const auto step = [&](std::size_t j) { out[j] += (fa * a[j] + fb * b[j]) + (fc * c[j] + fd * d[j]); };
  // Fixed trip counts: compilers that vectorise only what they understand fully do so here.
  constexpr std::size_t kStep = 16;
  std::size_t j = 0;
  for (; j + kStep <= count; j += kStep)
    for (std::size_t l = 0; l < kStep; ++l) step(j + l);
  for (; j < count; ++j) step(j);
}

// out[j] += sum over r < terms of factor(r) * vector(r)[j]
template <class Vector, class Factor>
void accumulate(float* out, std::size_t terms, std::size_t count, const Vector& vector, const Factor& factor) noexcept {
  std::size_t r = 0;
  for (; r + 4 <= terms; r += 4)
    add_four(out, {vector(r), vector(r + 1), vector(r + 2), vector(r + 3)},
             {factor(r), factor(r + 1), factor(r + 2), factor(r + 3)}, count);
  for (; r < terms; ++r) {
    const float* v = vector(r);
    const float f = factor(r);
    for (std::size_t j = 0; j < count; ++j) out[j] += f * v[j];
  }
}

// float32; the order of additions depends on the sizes alone.
float dot(const float* a, const float* b, std::size_t count) noexcept {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> sums = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l) sums[l] += a[i + l] * b[i + l];
  for (std::size_t l = 0; i < count; ++i, ++l) sums[l] += a[i] * b[i];
  for (std::size_t width = kLanes / 2; width != 0; width /= 2)
    for (std::size_t l = 0; l < width; ++l) sums[l] += sums[l + width];
  return sums[0];
}

// p[k * rows + i] = sum over j of m[i * cols + j] * q[k * cols + j], for k < rank.
void multiply(std::span<const float> m, std::span<const float> q, std::span<float> p, std::size_t rows,
              std::size_t cols) noexcept {
  const std::size_t rank = p.size() / rows;
  std::ranges::fill(p, 0.0F);
  for (std::size_t begin = 0; begin < cols; begin += kPanel) {
    const std::size_t width = std::min(kPanel, cols - begin);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < rank; ++k) p[k * rows + i] += dot(&m[i * cols + begin], &q[k * cols + begin], width);
  }
}

// q[k * cols + j] = sum over i of m[i * cols + j] * p[k * rows + i], for k < rank.
void multiply_transposed(std::span<const float> m, std::span<const float> p, std::span<float> q, std::size_t rows,
                         std::size_t cols) noexcept {
  const std::size_t rank = q.size() / cols;
  std::ranges::fill(q, 0.0F);
  constexpr std::size_t kRows = 4;  // that stay in the cache while each factor takes them
  for (std::size_t begin = 0; begin < cols; begin += kPanel) {
    const std::size_t width = std::min(kPanel, cols - begin);
    for (std::size_t first = 0; first < rows; first += kRows) {
      const std::size_t height = std::min(kRows, rows - first);
      for (std::size_t k = 0; k < rank; ++k)
        accumulate(
            &q[k * cols + begin], height, width, [&](std::size_t r) { return &m[(first + r) * cols + begin]; },
            [&](std::size_t r) { return p[k * rows + first + r]; });
    }
  }
}

// m[i * cols + j] = sum over k of p[k * rows + i] * q[k * cols + j].
void expand(std::span<const float> p, std::span<const float> q, std::span<float> m, std::size_t rows,
            std::size_t cols) noexcept {
  const std::size_t rank = q.size() / cols;
  std::ranges::fill(m, 0.0F);
  for (std::size_t i = 0; i < rows; ++i)
    accumulate(
        &m[i * cols], rank, cols, [&](std::size_t k) { return &q[k * cols]; },
        [&](std::size_t k) { return p[k * rows + i]; });
}

// Makes the column's length 1 and returns what it was, whatever its magnitude. A column of zeros stays; one with an
// infinity or NaN becomes NaN, and so is its length.
float normalize(std::span<float> column) noexcept {
  float largest = 0.0F;
  for (const float x : column) largest = std::max(largest, std::abs(x));
  if (largest > 0.0F) {
    // Divide by the largest first: squares of very small or large values would leave float32's range.
    for (float& x : column) x /= largest;
  }
  const float length = std::sqrt(dot(column.data(), column.data(), column.size()));
  if (length == 0.0F) return 0.0F;
  for (float& x : column) x /= length;
  return length * largest;
}

// Makes the columns p[k * rows ...] orthonormal, in their order (modified Gram-Schmidt, each column twice). One that
// depends on those before it becomes zero; infinities and NaN make it and those after it NaN.
void orthonormalize(std::span<float> p, std::size_t rows) noexcept {
  const std::size_t rank = p.size() / rows;
  for (std::size_t k = 0; k < rank; ++k) {
    const auto column = p.subspan(k * rows, rows);
    normalize(column);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t other = 0; other < k; ++other) {
        const float* before = &p[other * rows];
        const float along = dot(before, column.data(), rows);
        for (std::size_t i = 0; i < rows; ++i) column[i] -= along * before[i];
      }
    }
    // Only rounding errors are left of a dependent column.
    if (normalize(column) < 1e-5F) std::ranges::fill(column, 0.0F);
  }
}

// Steele et al., "Fast Splittable Pseudorandom Number Generators", 2014. Uniform in [-1, 1).
float random_float(std::uint64_t counter) noexcept {
  std::uint64_t z = (counter + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z ^= z >> 31;
  return static_cast<float>(static_cast<std::int64_t>(z) >> 40) * 0x1p-23F;
}

struct Extent {
  std::size_t rows = 1;
  std::size_t cols = 1;
};

Extent extent_of(std::span<const std::int64_t> shape) noexcept {
  Extent extent;
  if (!shape.empty()) extent.rows = static_cast<std::size_t>(shape[0]);
  for (std::size_t d = 1; d < shape.size(); ++d) extent.cols *= static_cast<std::size_t>(shape[d]);
  return extent;
}

}  // namespace

bool PowerSgd::pays(std::span<const std::int64_t> shape, int rank) noexcept {
  const auto [rows, cols] = extent_of(shape);
  if (shape.size() < 2 || rows == 0 || cols == 0) return false;
  // In double: the product may not fit.
  return 2.0 * rank * (static_cast<double>(rows) + static_cast<double>(cols)) <=
         static_cast<double>(rows) * static_cast<double>(cols);
}

PowerSgd::PowerSgd(std::span<const std::int64_t> shape, int rank, std::shared_ptr<CodecScratch> scratch)
    : rows_(extent_of(shape).rows),
      cols_(extent_of(shape).cols),
      rank_(static_cast<std::size_t>(rank)),
      scratch_(std::move(scratch)) {
  q_.resize(rank_ * cols_);
}

// Columns of Q to length 1, so that P has M's magnitude. Where the subspace has lost a dimension, and at first
// everywhere, a random column: a zero would stay one for ever.
void PowerSgd::refresh_columns() {
  for (std::size_t k = 0; k < rank_; ++k) {
    const auto column = std::span(q_).subspan(k * cols_, cols_);
    if (normalize(column) > 0.0F) continue;
    for (std::size_t j = 0; j < cols_; ++j) column[j] = random_float(draws_ * cols_ + j);
    ++draws_;
    normalize(column);
  }
}

Task PowerSgd::allreduce(Communicator& comm, std::span<float> values) {
  if (values.size() != rows_ * cols_)
    co_return failure(Code::kInvalidArgument, "PowerSGD compression: {} values for a matrix of {} x {}", values.size(),
                      rows_, cols_);
  if (comm.size() == 1) co_return Status();
  scratch_->p.resize(rank_ * rows_);
  scratch_->own_q.resize(rank_ * cols_);
  fit_residual(residual_, values.size());
  add_residual(values, residual_);
  refresh_columns();

  multiply(values, q_, scratch_->p, rows_, cols_);
  const Tensor p(scratch_->p.data(), scratch_->p.size());
  XOE_CO_TRY(comm.start_allreduce(p, p, ReduceOp::kAverage));
  orthonormalize(scratch_->p, rows_);

  multiply_transposed(values, scratch_->p, scratch_->own_q, rows_, cols_);
  // The rank's own share, not the mean's: so the residuals of ranks whose gradients always differ stay bounded.
  expand(scratch_->p, scratch_->own_q, residual_, rows_, cols_);
  keep_rest(values, residual_);
  XOE_CO_TRY(
      comm.start_allreduce(ConstTensor(scratch_->own_q.data(), scratch_->own_q.size()), Tensor(q_.data(), q_.size())));
  expand(scratch_->p, q_, values, rows_, cols_);
  co_return Status();
}

}  // namespace xoe::engine

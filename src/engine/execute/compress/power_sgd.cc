#include "engine/execute/compress/power_sgd.h"

#include "engine/execute/compress/feedback.h"
#include "engine/execute/compress/matrix.h"

namespace xoe::engine {
namespace {

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

PowerSgd::PowerSgd(std::span<const std::int64_t> shape, int rank)
    : rows_(extent_of(shape).rows), cols_(extent_of(shape).cols), rank_(static_cast<std::size_t>(rank)) {
  p_.resize(rank_ * rows_);
  q_.resize(rank_ * cols_);
  own_q_.resize(rank_ * cols_);
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
  fit_residual(residual_, values.size());
  add_residual(values, residual_);
  refresh_columns();

  multiply(values, q_, p_, rows_, cols_);
  const Tensor p(p_.data(), p_.size());
  XOE_CO_TRY(comm.start_allreduce(p, p, ReduceOp::kAverage));
  orthonormalize(p_, rows_);

  multiply_transposed(values, p_, own_q_, rows_, cols_);
  // The rank's own share, not the mean's: so the residuals of ranks whose gradients always differ stay bounded.
  expand(p_, own_q_, residual_, rows_, cols_);
  keep_rest(values, residual_);
  XOE_CO_TRY(comm.start_allreduce(ConstTensor(own_q_.data(), own_q_.size()), Tensor(q_.data(), q_.size())));
  expand(p_, q_, values, rows_, cols_);
  co_return Status();
}

}  // namespace xoe::engine

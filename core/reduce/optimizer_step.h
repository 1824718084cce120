// The update of optimizers, fused: one pass over gradient, state and parameter. SIMD through Google Highway, dispatched
// at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "xoe/tensor.h"

namespace xoe::reduce {

// Arithmetic: float32, each operation rounded to nearest even, with fused multiply-add where PyTorch's kernels have it.
// Every NaN that is written is the positive quiet one without payload. The bits at an index depend only on the inputs
// at that index: not on count, alignment or instruction set. Buffers need no alignment.

inline constexpr std::size_t kMostGradients = 1024;

// What a step reads and writes. Nothing overlaps.
struct StepTensors {
  void* parameter = nullptr;
  DType dtype = DType::kFloat32;  // of the parameter: float32, float16, bfloat16
  float* master = nullptr;        // 16 bits: its float32 copy, which is updated, then rounded into `parameter`
  // One gradient; or those of several ranks, up to kMostGradients, which are reduced by `op` (kSum or kAverage) on the
  // way, to the bits of reduce_into().
  std::span<const void* const> gradients = {};
  DType gradient_dtype = DType::kFloat32;  // float32, or that of the parameter
  ReduceOp op = ReduceOp::kAverage;
  std::size_t count = 0;
};

// Stochastic gradient descent as torch.optim.SGD has it:
//   d = scale * gradient (-d: maximize);  d += weight_decay * p;  d *= trust;
//   buffer = momentum * buffer + (1 - dampening) * d (first: d);  d = nesterov ? d + momentum * buffer : buffer
//   p -= learning_rate * d
struct SgdOptions {
  double learning_rate = 0;
  double momentum = 0;  // 0: there is no buffer
  double dampening = 0;
  double weight_decay = 0;
  double gradient_scale = 1;
  double trust = 1;  // see lars_trust()
  bool nesterov = false;
  bool maximize = false;
  bool first = false;  // the buffer's contents are undefined
};
void sgd_step(const SgdOptions& options, const StepTensors& tensors, float* momentum) noexcept;

// Adam and AdamW as torch.optim has them (Kingma and Ba 2015; Loshchilov and Hutter 2019; AMSGrad: Reddi et al. 2018):
//   g = scale * gradient (-g: maximize);  decoupled: p *= 1 - learning_rate * weight_decay, else g += weight_decay * p
//   mean += (1 - beta1) * (g - mean);  square = beta2 * square + (1 - beta2) * g * g;  largest = max(largest, square)
//   p -= learning_rate / (1 - beta1^step) * mean / (sqrt(square or largest) / sqrt(1 - beta2^step) + epsilon)
struct AdamOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;
  std::int64_t step = 1;  // that of this call, from 1
  bool decoupled = false;
  bool maximize = false;
};
// largest: null: without AMSGrad. States are zero before the first step.
void adam_step(const AdamOptions& options, const StepTensors& tensors, float* mean, float* square,
               float* largest) noexcept;

// Sums of squares in float64.
struct SquaredNorms {
  double parameter = 0;
  double update = 0;
};

// LARS (You, Gitman, Ginsburg 2017): sgd_step() with options.trust from the norms of parameter and gradient of a whole
// layer. Parts of a layer: add their norms first.
SquaredNorms lars_norms(const SgdOptions& options, const StepTensors& tensors) noexcept;
// coefficient * |p| / (|g| + weight_decay * |p| + epsilon); 1 where |p| or |g| is 0.
double lars_trust(const SgdOptions& options, const SquaredNorms& norms, double coefficient, double epsilon) noexcept;

// LAMB (You et al. 2020), in two passes, because the step depends on norms of a whole layer. The first updates mean and
// square as Adam's, and returns the norms of the parameter and of its update
//   u = mean / (1 - beta1^step) / (sqrt(square / (1 - beta2^step)) + epsilon) + weight_decay * p;
// the second computes u again, and p -= learning_rate * trust * u. options.decoupled has no meaning here.
SquaredNorms lamb_moments(const AdamOptions& options, const StepTensors& tensors, float* mean, float* square) noexcept;
// |p| / |u|; 1 where either is 0.
double lamb_trust(const SquaredNorms& norms) noexcept;
// Reads no gradient.
void lamb_apply(const AdamOptions& options, const StepTensors& tensors, const float* mean, const float* square,
                double trust) noexcept;

// The sum of x[i]^2 in float64, in an order that depends on count alone: the same bits on every instruction set.
double squared_norm(const float* x, std::size_t count) noexcept;

}  // namespace xoe::reduce

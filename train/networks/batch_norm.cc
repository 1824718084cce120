#include "train/networks/batch_norm.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace xoe::models {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

// Of each channel, over all ranks.
struct Statistics {
  at::Tensor mean;
  at::Tensor variance;  // divided by the count
  double count = 0;     // of pixels
};

// bfloat16 and float16 are too coarse for sums.
at::ScalarType type_of_sums(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

at::Tensor for_channels(const at::Tensor& vector) { return vector.view({1, -1, 1, 1}); }

// The means of the ranks are joined in float64, where differences of squares are harmless.
Statistics statistics_of_all(const at::Tensor& x, const SumOverRanks& sum) {
  const at::NoGradGuard no_grad;
  const at::ScalarType type = type_of_sums(x);
  const auto [variance, mean] = at::var_mean(x.to(type), {0, 2, 3}, /*unbiased=*/false);
  const auto count = static_cast<double>(x.numel() / x.size(1));
  const at::Tensor wide_mean = mean.to(at::kCPU, at::kDouble);
  const at::Tensor squares = variance.to(at::kCPU, at::kDouble) + wide_mean.square();
  const at::Tensor sums = at::cat({at::full({1}, 1.0, at::kDouble), wide_mean, squares}).mul_(count);
  sum(sums);
  Statistics all;
  all.count = sums[0].item<double>();
  const auto parts = sums.slice(0, 1).div_(all.count).chunk(2);
  all.mean = parts[0].to(x.device(), type);
  all.variance = (parts[1] - parts[0].square()).clamp_min_(0).to(x.device(), type);
  return all;
}

struct HeldSum : ::torch::CustomClassHolder {
  explicit HeldSum(SumOverRanks held) : sum(std::move(held)) {}
  SumOverRanks sum;
};

// PyTorch's SyncBatchNorm.
class NormOverRanks : public ::torch::autograd::Function<NormOverRanks> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const Statistics& all, double epsilon, const SumOverRanks& sum) {
    context->save_for_backward({x, weight, all.mean, all.variance});
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["count"] = all.count;
    context->saved_data["sum"] = c10::IValue::make_capsule(c10::make_intrusive<HeldSum>(sum));
    return std::get<0>(at::native_batch_norm(x, weight, bias, all.mean, all.variance, /*training=*/false, 0, epsilon));
  }

  // To what fixed statistics give comes what they owe to x: all pixels share it.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &variance = saved[3];
    const double epsilon = context->saved_data["epsilon"].toDouble();
    const double count = context->saved_data["count"].toDouble();
    const auto held = context->saved_data["sum"].toCapsule();
    const auto [fixed, of_weight, of_bias] = at::native_batch_norm_backward(
        gradients[0], x, weight, mean, variance, {}, {}, /*train=*/false, epsilon, {true, true, true});
    const at::Tensor sums = at::cat({of_weight, of_bias}).to(at::kCPU, at::kDouble);
    static_cast<const HeldSum&>(*held).sum(sums);
    const auto means = sums.div_(count).to(x.device()).chunk(2);
    const at::Tensor inverse = at::rsqrt(variance.to(at::kDouble) + epsilon);
    const at::Tensor factor = weight.to(at::kDouble) * inverse;
    const at::Tensor slope = -factor * inverse * means[0];
    const at::Tensor shift = -factor * means[1] - slope * mean;
    const at::ScalarType type = type_of_sums(x);
    const at::Tensor of_x = at::addcmul(for_channels(shift.to(type)), x, for_channels(slope.to(type))).add_(fixed);
    return {of_x.to(x.scalar_type()), of_weight, of_bias, {}, {}, {}};
  }
};

}  // namespace

at::Tensor BatchNormImpl::forward(const at::Tensor& x) {
  if (!is_training()) return BatchNorm2dImpl::forward(x);
  if (sum_) return forward_over_ranks(x);
  // A single value has no variance: the rest of an epoch may be one image.
  if (x.numel() == x.size(1))
    return at::batch_norm(x, weight, bias, running_mean, running_var, /*training=*/false, options.momentum().value(),
                          options.eps(), at::globalContext().userEnabledCuDNN());
  if (!keeps_statistics_) return BatchNorm2dImpl::forward(x);
  return at::batch_norm(x, weight, bias, {}, {}, /*training=*/true, options.momentum().value(), options.eps(),
                        at::globalContext().userEnabledCuDNN());
}

at::Tensor BatchNormImpl::forward_over_ranks(const at::Tensor& x) {
  const Statistics all = statistics_of_all(x, sum_);
  if (!keeps_statistics_) {
    const at::NoGradGuard no_grad;
    const double momentum = options.momentum().value();
    num_batches_tracked += 1;
    running_mean.lerp_(all.mean, momentum);
    running_var.lerp_(all.variance * (all.count / std::max(1.0, all.count - 1)), momentum);
  }
  return NormOverRanks::apply(x, weight, bias, all, options.eps(), sum_);
}

int synchronize_batch_norms(const ::torch::nn::Module& network, const SumOverRanks& sum) {
  int count = 0;
  for (const auto& module : network.modules(/*include_self=*/false)) {
    auto* const norm = module->as<BatchNormImpl>();
    if (norm == nullptr) continue;
    norm->set_sum(sum);
    ++count;
  }
  return count;
}

}  // namespace xoe::models

// Steps of optimizers: checks, and the structs of reduce/optimizer_step.h.
#include "core/reduce/optimizer_step.h"

#include "core/base/error.h"
#include "frameworks/c/error.h"
#include "frameworks/c/structs.h"

namespace xoe::capi {
namespace {

constexpr std::size_t kFirstSgdSize = 64;
constexpr std::size_t kFirstAdamSize = 72;
static_assert(sizeof(xoe_sgd) >= kFirstSgdSize && sizeof(xoe_adam) >= kFirstAdamSize);

constexpr xoe_sgd default_sgd() {
  xoe_sgd options{};
  options.struct_size = sizeof(xoe_sgd);
  options.gradient_scale = 1;
  options.trust = 1;
  return options;
}

constexpr xoe_adam default_adam() {
  xoe_adam options{};
  options.struct_size = sizeof(xoe_adam);
  options.beta1 = 0.9;
  options.beta2 = 0.999;
  options.epsilon = 1e-8;
  options.gradient_scale = 1;
  options.step = 1;
  return options;
}

bool is_half(std::int32_t dtype) { return dtype == XOE_FLOAT16 || dtype == XOE_BFLOAT16; }

Status check_memory(const xoe_step& step) {
  XOE_TRY(need(step.parameter, "step: parameter"));
  if (is_half(step.dtype)) XOE_TRY(need(step.master, "step: master, of 16-bit parameters,"));
  XOE_TRY(need(step.gradients, "step: gradients"));
  for (std::size_t i = 0; i < step.gradient_count; ++i) XOE_TRY(need(step.gradients[i], "step: a gradient"));
  return {};
}

Result<reduce::StepTensors> convert_step(const xoe_step* from) {
  XOE_TRY(need(from, "step"));
  const xoe_step& step = *from;
  if (step.dtype != XOE_FLOAT32 && !is_half(step.dtype))
    return failure(Code::kInvalidArgument, "step: dtype is {}, must be float32, float16 or bfloat16", step.dtype);
  if (step.gradient_dtype != XOE_FLOAT32 && step.gradient_dtype != step.dtype)
    return failure(Code::kInvalidArgument, "step: gradient_dtype is {}, must be float32 or that of the parameter",
                   step.gradient_dtype);
  if (step.dtype == XOE_FLOAT32 && step.master != nullptr)
    return failure(Code::kInvalidArgument, "step: master is given for float32 parameters");
  XOE_TRY(check_number(step.reduce, XOE_SUM, XOE_AVERAGE, "step: reduce"));
  XOE_TRY(
      check_number(static_cast<std::int64_t>(step.gradient_count), 1, reduce::kMostGradients, "step: gradient_count"));
  XOE_TRY(check_number(step.reserved, 0, 0, "step: reserved"));
  if (step.count > 0) XOE_TRY(check_memory(step));
  return reduce::StepTensors{.parameter = step.parameter,
                             .dtype = static_cast<DType>(step.dtype),
                             .master = step.master,
                             .gradients = {step.gradients, step.gradient_count},
                             .gradient_dtype = static_cast<DType>(step.gradient_dtype),
                             .op = static_cast<ReduceOp>(step.reduce),
                             .count = step.count};
}

Result<reduce::SgdOptions> convert_sgd(const xoe_sgd* from) {
  XOE_TRY(need(from, "options"));
  XOE_ASSIGN(const xoe_sgd options, copy_struct(from, default_sgd(), kFirstSgdSize, "options"));
  XOE_TRY(check_number(options.reserved, 0, 0, "options: reserved"));
  return reduce::SgdOptions{.learning_rate = options.learning_rate,
                            .momentum = options.momentum,
                            .dampening = options.dampening,
                            .weight_decay = options.weight_decay,
                            .gradient_scale = options.gradient_scale,
                            .trust = options.trust,
                            .nesterov = options.nesterov != 0,
                            .maximize = options.maximize != 0,
                            .first = options.first != 0};
}

Result<reduce::AdamOptions> convert_adam(const xoe_adam* from) {
  XOE_TRY(need(from, "options"));
  XOE_ASSIGN(const xoe_adam options, copy_struct(from, default_adam(), kFirstAdamSize, "options"));
  XOE_TRY(check_number(options.step, 1, INT64_MAX, "options: step"));
  return reduce::AdamOptions{.learning_rate = options.learning_rate,
                             .beta1 = options.beta1,
                             .beta2 = options.beta2,
                             .epsilon = options.epsilon,
                             .weight_decay = options.weight_decay,
                             .gradient_scale = options.gradient_scale,
                             .step = options.step,
                             .decoupled = options.decoupled != 0,
                             .maximize = options.maximize != 0};
}

Status check_moments(const reduce::StepTensors& tensors, const float* mean, const float* square) {
  if (tensors.count == 0) return {};
  XOE_TRY(need(mean, "mean"));
  return need(square, "square");
}

}  // namespace
}  // namespace xoe::capi

using namespace xoe::capi;  // NOLINT(google-build-using-namespace)
using xoe::Status;

extern "C" {

void xoe_sgd_init(xoe_sgd* options, size_t struct_size) { init_struct(options, default_sgd(), struct_size); }

xoe_status xoe_sgd_step(const xoe_sgd* options, const xoe_step* step, float* momentum) {
  return guard([&]() -> Status {
    XOE_ASSIGN(const auto sgd, convert_sgd(options));
    XOE_ASSIGN(const auto tensors, convert_step(step));
    if (sgd.momentum != 0 && tensors.count > 0) XOE_TRY(need(momentum, "momentum"));
    xoe::reduce::sgd_step(sgd, tensors, sgd.momentum != 0 ? momentum : nullptr);
    return {};
  });
}

void xoe_adam_init(xoe_adam* options, size_t struct_size) { init_struct(options, default_adam(), struct_size); }

xoe_status xoe_adam_step(const xoe_adam* options, const xoe_step* step, float* mean, float* square, float* largest) {
  return guard([&]() -> Status {
    XOE_ASSIGN(const auto adam, convert_adam(options));
    XOE_ASSIGN(const auto tensors, convert_step(step));
    XOE_TRY(check_moments(tensors, mean, square));
    xoe::reduce::adam_step(adam, tensors, mean, square, largest);
    return {};
  });
}

xoe_status xoe_lars_norms(const xoe_sgd* options, const xoe_step* step, xoe_norms* norms) {
  return guard([&]() -> Status {
    XOE_TRY(need(norms, "norms"));
    XOE_ASSIGN(const auto sgd, convert_sgd(options));
    XOE_ASSIGN(const auto tensors, convert_step(step));
    const auto [parameter, update] = xoe::reduce::lars_norms(sgd, tensors);
    *norms = {parameter, update};
    return {};
  });
}

xoe_status xoe_lars_trust(const xoe_sgd* options, const xoe_norms* norms, double coefficient, double epsilon,
                          double* trust) {
  return guard([&]() -> Status {
    XOE_TRY(need(norms, "norms"));
    XOE_TRY(need(trust, "trust"));
    XOE_ASSIGN(const auto sgd, convert_sgd(options));
    *trust = xoe::reduce::lars_trust(sgd, {norms->parameter, norms->update}, coefficient, epsilon);
    return {};
  });
}

xoe_status xoe_lamb_moments(const xoe_adam* options, const xoe_step* step, float* mean, float* square,
                            xoe_norms* norms) {
  return guard([&]() -> Status {
    XOE_TRY(need(norms, "norms"));
    XOE_ASSIGN(const auto adam, convert_adam(options));
    XOE_ASSIGN(const auto tensors, convert_step(step));
    XOE_TRY(check_moments(tensors, mean, square));
    const auto [parameter, update] = xoe::reduce::lamb_moments(adam, tensors, mean, square);
    *norms = {parameter, update};
    return {};
  });
}

xoe_status xoe_lamb_trust(const xoe_norms* norms, double* trust) {
  return guard([&]() -> Status {
    XOE_TRY(need(norms, "norms"));
    return give(xoe::reduce::lamb_trust({norms->parameter, norms->update}), trust, "trust");
  });
}

xoe_status xoe_lamb_apply(const xoe_adam* options, const xoe_step* step, const float* mean, const float* square,
                          double trust) {
  return guard([&]() -> Status {
    XOE_ASSIGN(const auto adam, convert_adam(options));
    XOE_ASSIGN(const auto tensors, convert_step(step));
    XOE_TRY(check_moments(tensors, mean, square));
    xoe::reduce::lamb_apply(adam, tensors, mean, square, trust);
    return {};
  });
}

}  // extern "C"

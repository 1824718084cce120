#include "frameworks/libtorch/adasum_update.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "xoe/torch/tensors.h"

namespace xoe::torch {
namespace {

constexpr std::size_t kAlignBytes = 64;

std::size_t bytes_of(const at::Tensor& tensor) {
  return (static_cast<std::size_t>(tensor.numel()) * tensor.element_size() + kAlignBytes - 1) / kAlignBytes *
         kAlignBytes;
}

}  // namespace

Result<std::unique_ptr<AdasumUpdate>> AdasumUpdate::create(std::span<const NamedParameter> parameters, Engine& engine,
                                                           std::string name) {
  std::unique_ptr<AdasumUpdate> made(new AdasumUpdate(engine, std::move(name)));
  std::size_t bytes = 0;
  for (const NamedParameter& parameter : parameters) {
    if (!parameter.tensor.is_cpu() || !parameter.tensor.is_floating_point()) {
      return failure(Code::kUnsupported, "adasum: {} is {} on {}, and must be a float tensor in host memory",
                     parameter.name, c10::toString(parameter.tensor.scalar_type()), parameter.tensor.device().str());
    }
    bytes += bytes_of(parameter.tensor);
  }
  XOE_ASSIGN(SharedBuffer memory, engine.shared_buffer(std::max<std::size_t>(bytes, 1)));
  made->memory_ = std::make_shared<SharedBuffer>(std::move(memory));
  std::byte* data = made->memory_->data();
  const at::NoGradGuard no_grad;
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor change = tensor_over(data, parameter.tensor, made->memory_);
    made->parts_.push_back({parameter.tensor, at::empty_like(change), change});
    data += bytes_of(parameter.tensor);
  }
  return made;
}

void AdasumUpdate::begin() {
  const at::NoGradGuard no_grad;
  for (Part& part : parts_) part.start.copy_(part.parameter);
}

Status AdasumUpdate::end() {
  const at::NoGradGuard no_grad;
  std::vector<TensorArg> changes;
  for (Part& part : parts_) {
    part.change.copy_(part.parameter).sub_(part.start);
    XOE_ASSIGN(const DType dtype, dtype_of(part.change.scalar_type()));
    void* const data = part.change.data_ptr();
    changes.push_back({.in = data, .out = data, .dtype = dtype, .shape = part.change.sizes()});
  }
  // One group of each type: a group has one.
  Status status;
  while (status && !changes.empty()) {
    const DType dtype = changes.front().dtype;
    const auto others = std::ranges::stable_partition(changes, [&](const TensorArg& t) { return t.dtype == dtype; });
    const std::string name = fmt::format("{}.adasum {}", name_, dtype_name(dtype));
    status = engine_.run({.name = name,
                          .op = {.kind = OpKind::kAdasum, .needs_all_ranks = true},
                          .tensors = {changes.begin(), others.begin()}});
    changes.erase(changes.begin(), others.begin());
  }
  for (Part& part : parts_) {
    if (status) part.start.add_(part.change);
    part.parameter.copy_(part.start);
  }
  return status;
}

}  // namespace xoe::torch

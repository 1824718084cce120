#include "xoe/torch/tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/error.h"

namespace xoe::torch {
namespace {

// `tensor` itself when a collective can work on its memory, else a row-major copy on the host, since strides may differ
// between ranks.
at::Tensor host_form(const at::Tensor& tensor) {
  if (tensor.device().is_cpu() && tensor.is_contiguous()) return tensor;
  return tensor.detach().to(at::kCPU).contiguous();
}

// Runs `collective` on the memory of `tensor`, through a copy where needed.
template <class Collective>
Status on_host(const at::Tensor& tensor, Collective&& collective) {
  const at::NoGradGuard no_grad;
  try {
    const at::Tensor host = host_form(tensor);
    XOE_TRY(collective(host));
    if (!host.is_same(tensor)) tensor.copy_(host);
    return {};
  } catch (const std::exception& error) {
    return failure(Code::kInternal, "libtorch: {}", error.what());
  }
}

Status check_strided(const at::Tensor& tensor, std::string_view what) {
  if (!tensor.defined()) return failure(Code::kInvalidArgument, "{}: the tensor is undefined", what);
  if (tensor.layout() != at::kStrided) {
    return failure(Code::kUnsupported, "{}: only strided tensors; make it dense with to_dense()", what);
  }
  return {};
}

}  // namespace

Result<DType> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kByte: return DType::kUint8;
    case at::kChar: return DType::kInt8;
    case at::kShort: return DType::kInt16;
    case at::kInt: return DType::kInt32;
    case at::kLong: return DType::kInt64;
    case at::kHalf: return DType::kFloat16;
    case at::kBFloat16: return DType::kBfloat16;
    case at::kFloat: return DType::kFloat32;
    case at::kDouble: return DType::kFloat64;
    case at::kBool: return DType::kBool;
    default: return failure(Code::kUnsupported, "no collectives on {} tensors", c10::toString(type));
  }
}

Status allreduce(const at::Tensor& tensor, Communicator& comm, ReduceOp op, OpOptions options) {
  XOE_TRY(check_strided(tensor, "allreduce"));
  XOE_ASSIGN(const DType dtype, dtype_of(tensor.scalar_type()));
  return on_host(tensor, [&](const at::Tensor& host) {
    return comm.allreduce(Tensor(host.data_ptr(), static_cast<std::size_t>(host.numel()), dtype), op, options);
  });
}

Status broadcast(const at::Tensor& tensor, Communicator& comm, int root, OpOptions options) {
  XOE_TRY(check_strided(tensor, "broadcast"));
  return on_host(tensor, [&](const at::Tensor& host) {
    return comm.broadcast(Tensor(static_cast<std::uint8_t*>(host.data_ptr()), host.nbytes()), root, options);
  });
}

Result<double> allreduce_metric(double value, Communicator& comm, ReduceOp op) {
  XOE_TRY(comm.allreduce(Tensor(&value, 1), op, {.name = "metric"}));
  return value;
}

Result<at::Tensor> allreduce_metric(const at::Tensor& values, Communicator& comm, ReduceOp op) {
  XOE_TRY(check_strided(values, "allreduce_metric"));
  const at::NoGradGuard no_grad;
  try {
    // Always a copy: the caller's tensor must not change.
    at::Tensor sum = values.detach().to(at::kCPU, at::kDouble, /*non_blocking=*/false, /*copy=*/true).contiguous();
    XOE_TRY(
        comm.allreduce(Tensor(sum.data_ptr<double>(), static_cast<std::size_t>(sum.numel())), op, {.name = "metric"}));
    return sum;
  } catch (const std::exception& error) {
    return failure(Code::kInternal, "libtorch: {}", error.what());
  }
}

}  // namespace xoe::torch

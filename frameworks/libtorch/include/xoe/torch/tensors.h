// Collectives on libtorch tensors. Same thread rule and same errors as xoe::Communicator.
#pragma once

#include <ATen/core/Tensor.h>

#include "xoe/communicator.h"

namespace xoe::torch {

// The collectives' element type for `type`; `unsupported` for complex, quantized and 8-bit float types.
Result<DType> dtype_of(at::ScalarType type);

// tensor = op over ranks of tensor, in place; same shape and type on all ranks. Strided tensors of any layout, on
// any device (copied through the host where they are not dense host memory).
Status allreduce(const at::Tensor& tensor, Communicator& comm, ReduceOp op = ReduceOp::kAverage,
                 OpOptions options = {});

// Copies `tensor` of `root` to `tensor` of all ranks; same shape and type on all ranks; any type.
Status broadcast(const at::Tensor& tensor, Communicator& comm, int root = 0, OpOptions options = {});

// A number that each rank measured (loss, accuracy, images/s), averaged or summed over ranks in float64.
Result<double> allreduce_metric(double value, Communicator& comm, ReduceOp op = ReduceOp::kAverage);
// The same for several at once: a new float64 tensor on the host, of the shape of `values`.
Result<at::Tensor> allreduce_metric(const at::Tensor& values, Communicator& comm, ReduceOp op = ReduceOp::kAverage);

}  // namespace xoe::torch

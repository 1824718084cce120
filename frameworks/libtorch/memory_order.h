// The order in which a tensor's elements lie in memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace xoe::torch {

// Whether elements of the same place have the same offset in both. Strides of dimensions of size 1 mean nothing: a
// gradient of a 1x1 convolution and its parameter may differ there.
inline bool same_order(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (std::int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

}  // namespace xoe::torch

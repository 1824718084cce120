// Adasum: a sum that becomes an average where the summands agree. Maleki et al., "Scaling Distributed Training with
// Adaptive Summation", 2020.
#pragma once

#include <span>

#include "core/engine/execute/batch/task.h"
#include "xoe/communicator.h"
#include "xoe/tensor.h"

namespace xoe::engine {

// tensors[t], in place, becomes the combination over ranks of tensors[t], each tensor on its own; the same bits on
// every rank and on every run. Two vectors combine to
//   (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
// and to their sum if one of them is zero: orthogonal ones add up, equal ones stay what they are. Ranks are the leaves
// of a binary tree in rank order, as in Horovod: neighbours combine first, then pairs of pairs; an odd one out
// goes up unchanged.
//
// float16, bfloat16 and float32 combine in float32 and round once at the end, float64 in float64; dot products and
// norms in float64. On the wire: an alltoall and an allgather of all values, and between them one allreduce of three
// float64 for each pair and tensor per level of the tree. Memory: all values once in the type of computation, and once
// more as they are for several tensors and, for a while, for 16-bit types.
//
// All ranks give tensors of the same counts and dtype; 0 is allowed. The list is copied, the tensors' memory stays in
// use until the task is done.
// `invalid_argument`: different dtypes in the list, a type that is no float, null data.
Task adasum(Communicator& comm, std::span<const Tensor> tensors);

}  // namespace xoe::engine

// Which of NCCL's types and operators carry out a reduction.
#pragma once

#include "core/backend/backend.h"
#include "core/drivers/nccl/nccl.h"

namespace xoe::nccl {

struct Reduction {
  NcclType type = NcclType::kFloat32;
  NcclOp op = NcclOp::kSum;
  bool scaled = false;  // a sum of the input times `factor`, instead of `op`
  double factor = 1;
};

// A pure function. `unsupported`, with the reason and an alternative, where NCCL or this version of it does not provide
// what ReduceOp promises.
Result<Reduction> plan_reduction(const Collective& collective, int size, const NcclFeatures& features, int version);

}  // namespace xoe::nccl

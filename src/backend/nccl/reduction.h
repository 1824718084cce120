// How NCCL is asked for one of our reductions.
#pragma once

#include "backend/backend.h"
#include "backend/nccl/nccl_api.h"

namespace xoe::nccl {

struct Reduction {
  NcclType type = NcclType::kFloat32;
  NcclOp op = NcclOp::kSum;
  bool scaled = false;  // a sum of `in` times `factor`, instead of `op`
  double factor = 1;
};

// A pure function. `unsupported` with the reason and what to do instead, where NCCL, or this version of it, does not
// give what ReduceOp promises.
Result<Reduction> plan_reduction(const Collective& collective, int size, const NcclFeatures& features, int version);

}  // namespace xoe::nccl

// Which gradients all ranks of a process set lay out, and in which order.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/engine/buckets/bucket_plan.h"
#include "xoe/engine.h"

namespace xoe::engine {

// What set rank 0 has decided for all.
struct CommonParameters {
  std::vector<BucketParameter> parameters;  // those that all ranks have with the same type and shape, in its order
  std::size_t bucket_bytes = 0;
};

// Runs a request to its end.
using RunRequest = std::function<Result<EngineHandle>(const Request&)>;

// Collective over the process set; `invalid_argument` on all its ranks where one has joined. name: of the operations.
Result<CommonParameters> agree_on_parameters(std::span<const BucketParameter> own, std::size_t bucket_bytes,
                                             const std::string& name, ProcessSetId set, const RunRequest& run);

// Collective: whether `yes` on all ranks.
Result<bool> all_agree(bool yes, const std::string& name, ProcessSetId set, const RunRequest& run);

}  // namespace xoe::engine

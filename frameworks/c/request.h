// C's requests as the engine takes them.
#pragma once

#include <vector>

#include "xoe/c.h"
#include "xoe/engine.h"
#include "xoe/status.h"

namespace xoe::capi {

// The engine's request, with the tensors that it points at.
struct RequestParts {
  TensorArg one;
  std::vector<TensorArg> several;  // where there are more
  Request request;
};

// `parts` points into `from` and into itself, and must not move afterwards.
Status convert_request(const xoe_request* from, RequestParts& parts);

// Type and shape of the index-th thing of this kind, "tensor" for example.
Status check_shape(std::int32_t dtype, const std::int64_t* shape, std::int32_t ndim);

}  // namespace xoe::capi

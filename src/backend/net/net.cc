#include "backend/net/net.h"

#include "base/error.h"

namespace xoe::net {

Result<std::shared_ptr<const void>> Provider::admit(std::span<const void* const>, void*) {
  return failure(Code::kUnsupported, "{} does not take GPU memory", name());
}

}  // namespace xoe::net

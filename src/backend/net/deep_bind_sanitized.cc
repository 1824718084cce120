#include "backend/net/deep_bind.h"

namespace xoe::net {

const int kDeepBind = 0;

}  // namespace xoe::net

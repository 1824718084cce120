#include "backend/net/deep_bind.h"

#include <dlfcn.h>

namespace xoe::net {

const int kDeepBind = RTLD_DEEPBIND;

}  // namespace xoe::net

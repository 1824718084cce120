// libxoe-gloo.so.
#include "backend/net/plugin.h"

#include "backend/gloo/provider.h"

XOE_NET_PLUGIN(xoe::gloo::open_provider)

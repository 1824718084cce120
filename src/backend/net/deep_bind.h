// The engines' symbols must not be taken from a framework that has its own copy of the engine.
#pragma once

namespace xoe::net {

extern const int kDeepBind;  // RTLD_DEEPBIND, or 0 under the sanitizers, which refuse it

}  // namespace xoe::net

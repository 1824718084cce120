// A plug-in must not bind to the symbols of a framework that brings its own copy of the library.
#pragma once

namespace xoe::net {

extern const int kDeepBind;  // RTLD_DEEPBIND, or 0 under the sanitizers, which refuse it

}  // namespace xoe::net

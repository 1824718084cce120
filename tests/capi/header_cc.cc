// The header alone, as C++: its names must stand beside those of the C++ interface.
#include "xoe/c.h"
// Once more: it is guarded.
#include "xoe/c.h"
#include "xoe/engine.h"

static_assert(XOE_OK == 0 && sizeof(xoe_tensor) == 64);

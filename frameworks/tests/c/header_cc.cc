// The headers alone, as C++: their names must stand beside those of the C++ interface.
#include "xoe/c.h"
#include "xoe/c_data.h"
// Once more: they are guarded.
#include "xoe/c.h"
#include "xoe/c_data.h"
#include "xoe/data.h"
#include "xoe/engine.h"

static_assert(XOE_OK == 0 && sizeof(xoe_tensor) == 64);

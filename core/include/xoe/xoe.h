// Everything a C++ program needs: `auto world = xoe::init().value();`
#pragma once

#include "xoe/communicator.h"
#include "xoe/memory.h"
#include "xoe/status.h"
#include "xoe/tensor.h"

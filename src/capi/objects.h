// The objects behind C's opaque pointers.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "xoe/c.h"
#include "xoe/engine.h"
#include "xoe/memory.h"

struct xoe_engine {
  std::unique_ptr<xoe::Engine> engine;
};

struct xoe_handle {
  xoe::EngineHandle handle;
  std::mutex mutex;
  std::string message;  // set once, after completion, so that its address stays valid
};

struct xoe_buffer {
  xoe::SharedBuffer buffer;
};

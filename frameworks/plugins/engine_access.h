// How a library that a framework loads by itself reaches this process's engine, which the Python package owns.
#pragma once

#include "xoe/c.h"

namespace xoe::plugins {

// Any thread may call both.
struct EngineAccess {
  // The engine that xoe.init() made, and in *use what to release; null: there is none.
  xoe_engine* (*acquire)(void** use);
  void (*release)(void* use);
};

// Keeps the engine while it lives, also where another thread shuts it down: calls then end with an error.
class EngineUse {
 public:
  explicit EngineUse(const EngineAccess* access) : access_(access) {
    if (access_ != nullptr) engine_ = access_->acquire(&use_);
  }
  EngineUse(const EngineUse&) = delete;
  EngineUse& operator=(const EngineUse&) = delete;
  ~EngineUse() {
    if (engine_ != nullptr) access_->release(use_);
  }

  xoe_engine* get() const { return engine_; }

  static constexpr const char* kNone = "Xoe has not been initialized; call init() first";

 private:
  const EngineAccess* access_;
  void* use_ = nullptr;
  xoe_engine* engine_ = nullptr;
};

}  // namespace xoe::plugins

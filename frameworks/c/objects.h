// The objects behind C's opaque pointers.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "core/bootstrap/world_page.h"
#include "core/engine/buckets/gradient_buckets.h"
#include "core/engine/messages/messages.h"
#include "core/engine/shards/shard_sum.h"
#include "frameworks/c/error.h"
#include "xoe/c.h"
#include "xoe/engine.h"
#include "xoe/memory.h"

struct xoe_engine {
  std::unique_ptr<xoe::Engine> engine;
  std::string key;  // XOE_KEY_BYTES
  std::string address;
  bool encrypts = false;
  int world_version = 0;
  xoe::bootstrap::WorldView world_view = {};
  mutable std::mutex formed_mutex = {};
  mutable std::function<void()> tell_formed = {};  // until it was called; guarded by formed_mutex
};

struct xoe_handle {
  xoe::EngineHandle handle;
  std::mutex mutex;
  std::string message;  // set once, after completion, so that its address stays valid
};

struct xoe_buffer {
  xoe::SharedBuffer buffer;
};

struct xoe_messages {
  std::shared_ptr<xoe::engine::Messages> messages;
};

struct xoe_message {
  std::shared_ptr<xoe::engine::Messages> messages;
  xoe::engine::MessagePtr message;
};

struct xoe_buckets {
  std::unique_ptr<xoe::engine::GradientBuckets> buckets;
};

struct xoe_shard_sum {
  std::unique_ptr<xoe::engine::ShardSum> sum;
};

namespace xoe::capi {

// with() for an engine: body(Engine&).
template <class Body>
xoe_status with_engine(const xoe_engine* engine, Body&& body) noexcept {
  return with(engine, "engine", [&](const xoe_engine& it) -> Status { return body(*it.engine); });
}

}  // namespace xoe::capi

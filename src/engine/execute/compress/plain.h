// No compression: an allreduce in float32.
#pragma once

#include "engine/execute/compress/codec.h"

namespace xoe::engine {

class Plain final : public Codec {
 public:
  Task allreduce(Communicator& comm, std::span<float> values) override;
};

}  // namespace xoe::engine

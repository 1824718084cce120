// How each kind of operation runs on a communicator: coroutines of in-order collectives.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/execute/compress/codec.h"
#include "engine/execute/fusion.h"
#include "engine/execute/gpu/gpu_lane.h"
#include "engine/execute/task.h"
#include "xoe/communicator.h"
#include "xoe/memory.h"

namespace xoe::engine {

// Shared memory for fused collectives, kept from one to the next.
class BufferPool {
 public:
  // At least `bytes` of it.
  Result<SharedBuffer> take(Communicator& comm, std::size_t bytes);
  void give_back(SharedBuffer buffer);

 private:
  std::vector<SharedBuffer> free_;
};

using TimePoint = EngineClock::time_point;

// A batch under way.
struct Running {
  Batch batch;
  std::shared_ptr<std::vector<Item>> items;  // of all batches between two seals
  std::string title;
  std::string codec_key;  // names whose beginnings are alike have codecs of their own
  // It starts no further collective: the next batch may start. All ranks start collectives in one order, so an
  // operation of several steps keeps the others waiting.
  bool may_follow = false;
  TimePoint started, packed, reduced, done;  // for the timeline; equal where a step does not exist
  std::uint64_t position = 0;                // of the log, that it begins after
  Task task;
};

// The codecs of an operation's tensors.
struct Codecs {
  std::uint64_t signature = 0;  // of the operation that they were made for
  std::vector<std::unique_ptr<Codec>> of_tensor;
};

// What operations need of their process set.
struct Workshop {
  Communicator& comm;
  GpuLane* lane;
  BufferPool buffers = {};
  std::map<std::string, Codecs, std::less<>> codecs = {};  // by the operation's name
};

// The task refers to both arguments, which must outlive it.
Task run_batch(Workshop& shop, Running& running);

}  // namespace xoe::engine

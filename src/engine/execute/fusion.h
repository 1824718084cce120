// Which tensors travel together, as a pure function of what all ranks know.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/negotiate/readiness_table.h"
#include "engine/submission.h"

namespace xoe::engine {

// An operation that all ranks have agreed to run now.
struct Item {
  LogLine line = {};
  std::uint64_t signature = 0;
  OpDescriptor op = {};
  std::vector<TensorSize> sizes = {};
  std::shared_ptr<Submission> submission = {};  // null: this rank has joined, and gives zeros
};

// A tensor of an item within a batch.
struct Piece {
  std::size_t item = 0;
  std::size_t tensor = 0;
  std::size_t count = 0;
};

// One collective, or one operation of several steps.
struct Batch {
  // The pieces are allreduced or broadcast as one; otherwise the item runs as a whole.
  bool fused = false;
  OpSpec op = {};              // a fused one: dtype of all its tensors; prescale of GPU memory, else 1; no postscale
  DType wire = DType::kUint8;  // element type on the wire
  std::size_t bytes = 0;       // on the wire
  std::vector<Piece> pieces = {};
  std::size_t item = 0;  // where not fused
};

struct FusionLimits {
  std::size_t threshold = 0;   // bytes of a fused collective
  std::size_t pack_limit = 0;  // larger tensors travel alone
};

// Batches in the order in which all ranks run them. A tensor joins the first batch of its sort that has room, also past
// tensors of another sort. Every tensor is in exactly one batch, also empty ones.
std::vector<Batch> plan_batches(std::span<const Item> items, const FusionLimits& limits);

}  // namespace xoe::engine

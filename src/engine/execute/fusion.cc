#include "engine/execute/fusion.h"

namespace xoe::engine {
namespace {

bool runs_fused(const OpDescriptor& op) {
  if (op.internal != InternalKind::kNone) return false;
  if (op.kind == OpKind::kBroadcast) return true;
  if (op.kind != OpKind::kAllreduce || op.compression.error_feedback) return false;
  return op.compression.kind == Compression::kNone || op.compression.kind == Compression::kFloat16 ||
         op.compression.kind == Compression::kBfloat16;
}

DType wire_type(Compression compression, DType dtype) {
  if (compression == Compression::kFloat16) return DType::kFloat16;
  if (compression == Compression::kBfloat16) return DType::kBfloat16;
  return dtype;
}

// The collective that carries one tensor of an operation. Host memory is scaled when it is packed and unpacked.
Batch batch_for(const OpSpec& op, DType dtype) {
  Batch batch{.fused = true, .op = op, .wire = wire_type(op.compression.kind, dtype)};
  batch.op.dtype = dtype;
  batch.op.compression = {};
  batch.op.prescale = op.gpu ? op.prescale * op.postscale : 1;
  batch.op.postscale = 1;
  return batch;
}

class Planner {
 public:
  explicit Planner(const FusionLimits& limits) : limits_(limits) {}

  void add(std::size_t index, const Item& item) {
    if (!runs_fused(item.op)) {
      Batch batch{.op = item.op, .item = index};
      for (const TensorSize& size : item.sizes) batch.bytes += size.count * dtype_size(static_cast<DType>(size.dtype));
      batches_.push_back(std::move(batch));
      return;
    }
    for (std::size_t t = 0; t < item.sizes.size(); ++t)
      place(batch_for(item.op, static_cast<DType>(item.sizes[t].dtype)), {index, t, item.sizes[t].count});
  }

  std::vector<Batch> take() { return std::move(batches_); }

 private:
  void place(Batch wanted, Piece piece) {
    const std::size_t bytes = piece.count * dtype_size(wanted.wire);
    if (bytes <= limits_.pack_limit) {
      for (const std::size_t b : open_) {
        Batch& batch = batches_[b];
        if (batch.op != wanted.op || batch.wire != wanted.wire || batch.bytes + bytes > limits_.threshold) continue;
        batch.pieces.push_back(piece);
        batch.bytes += bytes;
        return;
      }
      open_.push_back(batches_.size());
    }
    wanted.bytes = bytes;
    wanted.pieces.push_back(piece);
    batches_.push_back(std::move(wanted));
  }

  FusionLimits limits_;
  std::vector<Batch> batches_;
  std::vector<std::size_t> open_;  // those that may take more
};

}  // namespace

std::vector<Batch> plan_batches(std::span<const Item> items, const FusionLimits& limits) {
  Planner planner(limits);
  for (std::size_t i = 0; i < items.size(); ++i) planner.add(i, items[i]);
  return planner.take();
}

}  // namespace xoe::engine

#include "engine/execute/fusion.h"

namespace xoe::engine {
namespace {

bool runs_fused(const Traits& traits) {
  if (traits.internal != 0) return false;
  if (traits.kind == OpKind::kBroadcast) return true;
  if (traits.kind != OpKind::kAllreduce || traits.error_feedback != 0) return false;
  return traits.compression == Compression::kNone || traits.compression == Compression::kFloat16 ||
         traits.compression == Compression::kBfloat16;
}

DType wire_type(const Traits& traits, DType dtype) {
  if (traits.compression == Compression::kFloat16) return DType::kFloat16;
  if (traits.compression == Compression::kBfloat16) return DType::kBfloat16;
  return dtype;
}

bool same_sort(const Batch& a, const Batch& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.wire == b.wire && a.reduce == b.reduce && a.root == b.root &&
         a.gpu == b.gpu && a.gpu_factor == b.gpu_factor;
}

class Planner {
 public:
  explicit Planner(const FusionLimits& limits) : limits_(limits) {}

  void add(std::size_t index, const Item& item) {
    if (!runs_fused(item.traits)) {
      Batch batch{.kind = item.traits.kind, .gpu = item.traits.gpu != 0, .item = index};
      for (const TensorSize& size : item.sizes) batch.bytes += size.count * dtype_size(static_cast<DType>(size.dtype));
      batches_.push_back(std::move(batch));
      return;
    }
    for (std::size_t t = 0; t < item.sizes.size(); ++t) {
      const auto dtype = static_cast<DType>(item.sizes[t].dtype);
      Batch wanted{.fused = true,
                   .kind = item.traits.kind,
                   .dtype = dtype,
                   .wire = wire_type(item.traits, dtype),
                   .reduce = item.traits.reduce,
                   .root = item.traits.root,
                   .gpu = item.traits.gpu != 0,
                   .gpu_factor = item.traits.gpu_factor};
      place(std::move(wanted), {index, t, item.sizes[t].count});
    }
  }

  std::vector<Batch> take() { return std::move(batches_); }

 private:
  void place(Batch wanted, Piece piece) {
    const std::size_t bytes = piece.count * dtype_size(wanted.wire);
    if (bytes <= limits_.pack_limit) {
      for (const std::size_t b : open_) {
        Batch& batch = batches_[b];
        if (!same_sort(batch, wanted) || batch.bytes + bytes > limits_.threshold) continue;
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
